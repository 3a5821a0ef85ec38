//! The restricted unpickler: pickles become data, never code.
//!
//! A pickle is a program for a stack machine that may import any function and call it. Here
//! nothing is imported and nothing is called: a call stays a [`Value::Call`] that says what would
//! have been called with what, and the reader of checkpoints recognises the few it needs (tensors,
//! ordered dicts) by name. Values live in an arena and refer to each other by index, so shared
//! and cyclic structures cost what they cost in the file, nothing here recurses over them, and
//! dropping them is dropping one vector.

mod input;
mod machine;

pub use machine::parse;

/// Index of a value in its [`Pickle`].
pub type Id = u32;

/// One value of a pickle.
#[derive(Debug)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Box<str>),
    /// Content nobody needs: bytes, and integers beyond 64 bits.
    Opaque,
    /// A list or a set.
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function, by strings.
    Global {
        module: Id,
        name: Id,
    },
    /// Something constructed by a call that was not made.
    Call(Box<Call>),
    /// A reference to something stored outside the pickle, by whatever names it.
    Persistent(Id),
}

/// A call that was not made, and what was done to its result.
#[derive(Debug)]
pub struct Call {
    /// What would have been called.
    pub callable: Id,
    /// With what.
    pub arguments: Id,
    /// The state given to the result.
    pub state: Option<Id>,
    /// Elements appended to the result.
    pub items: Vec<Id>,
    /// Entries set in the result.
    pub pairs: Vec<(Id, Id)>,
}

/// A parsed pickle.
#[derive(Debug)]
pub struct Pickle {
    values: Vec<Value>,
    /// The value the pickle stands for.
    pub root: Id,
}

impl Pickle {
    /// The value of an index of this pickle.
    pub fn value(&self, id: Id) -> &Value {
        &self.values[id as usize]
    }

    /// A string.
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.value(id) {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn natural(&self, id: Id) -> Option<usize> {
        match self.value(id) {
            &Value::Int(n) => n.try_into().ok(),
            _ => None,
        }
    }

    /// Elements of a list or a tuple.
    pub fn items(&self, id: Id) -> Option<&[Id]> {
        match self.value(id) {
            Value::List(items) | Value::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Entries of a dict, or of an object that had entries set, such as an `OrderedDict`.
    pub fn pairs(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.value(id) {
            Value::Dict(pairs) => Some(pairs),
            Value::Call(call) if !call.pairs.is_empty() => Some(&call.pairs),
            _ => None,
        }
    }

    /// The entry of a dict under a string; the last one, as in Python.
    pub fn get(&self, id: Id, key: &str) -> Option<Id> {
        let mut pairs = self.pairs(id)?.iter().rev();
        pairs.find_map(|&(k, v)| (self.text(k) == Some(key)).then_some(v))
    }

    /// Module and name of a class or function.
    pub fn global(&self, id: Id) -> Option<(&str, &str)> {
        match self.value(id) {
            &Value::Global { module, name } => self.text(module).zip(self.text(name)),
            _ => None,
        }
    }

    /// Plain data as JSON, as deep as settings go; objects become what was set in them, the
    /// containers of omegaconf their content, anything else null. `budget` is the number of
    /// values that may still be converted, so that shared values cannot multiply.
    pub fn json(&self, id: Id, depth: usize, budget: &mut usize) -> serde_json::Value {
        use serde_json::Value as Json;
        const LONGEST: usize = 256;
        if depth == 0 || *budget == 0 {
            return Json::Null;
        }
        *budget -= 1;
        match self.value(id) {
            &Value::Bool(b) => b.into(),
            &Value::Int(n) => n.into(),
            &Value::Float(x) => x.into(),
            Value::Str(text) if text.len() <= LONGEST => Json::String(text.to_string()),
            Value::List(items) | Value::Tuple(items) => items
                .iter()
                .take(*budget)
                .map(|&item| self.json(item, depth - 1, budget))
                .collect(),
            Value::Dict(pairs) => self.object(pairs, depth, budget),
            Value::Call(call) if !call.pairs.is_empty() => self.object(&call.pairs, depth, budget),
            Value::Call(call) => {
                let Some(state) = call.state else {
                    return Json::Null;
                };
                let inner = ["_content", "_val"].iter().find_map(|k| self.get(state, k));
                self.json(inner.unwrap_or(state), depth - 1, budget)
            }
            _ => Json::Null,
        }
    }

    fn object(&self, pairs: &[(Id, Id)], depth: usize, budget: &mut usize) -> serde_json::Value {
        let mut object = serde_json::Map::new();
        for &(key, value) in pairs {
            if *budget == 0 {
                break;
            }
            // A tokenizer is all of a vocabulary and says nothing about the network.
            if let Some(key) = self.text(key)
                && key.len() <= 64
                && key != "tokenizer"
            {
                object.insert(key.into(), self.json(value, depth - 1, budget));
            }
        }
        object.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_out_as_json() {
        // {'a': [1, 2.5, None], 'b': ('x', True), 'tokenizer': 7}
        let pickle = b"\x80\x02}(X\x01\x00\x00\x00a](K\x01G\x40\x04\x00\x00\x00\x00\x00\x00Ne\
            X\x01\x00\x00\x00bX\x01\x00\x00\x00x\x88\x86X\x09\x00\x00\x00tokenizerK\x07u.";
        let pickle = parse(pickle).unwrap();
        let json = pickle.json(pickle.root, 8, &mut 100);
        assert_eq!(
            json,
            serde_json::json!({ "a": [1, 2.5, null], "b": ["x", true] })
        );
    }

    #[test]
    fn objects_give_their_content() {
        // An object of module m, class C, with state {'_content': {'k': <object with _val 3>}}.
        let pickle = b"\x80\x02cm\nC\n)\x81}X\x08\x00\x00\x00_content}X\x01\x00\x00\x00k\
            cm\nV\n)\x81}X\x04\x00\x00\x00_valK\x03sbssb.";
        let pickle = parse(pickle).unwrap();
        let json = pickle.json(pickle.root, 8, &mut 100);
        assert_eq!(json, serde_json::json!({ "k": 3 }));
    }

    #[test]
    fn cycles_and_shared_values_end() {
        // l = []; l.append(l)
        let cycle = parse(b"\x80\x02]q\x00h\x00a.").unwrap();
        assert!(!cycle.json(cycle.root, 64, &mut 1000).is_null());
        // Each of 40 lists holds the one before it twice.
        let mut laughs = b"\x80\x02]q\x00".to_vec();
        for level in 1..40u8 {
            laughs.extend([
                b'0',
                b']',
                b'q',
                level,
                b'h',
                level - 1,
                b'a',
                b'h',
                level - 1,
                b'a',
            ]);
        }
        laughs.push(b'.');
        let laughs = parse(&laughs).unwrap();
        let mut budget = 1000;
        laughs.json(laughs.root, 64, &mut budget);
        assert_eq!(budget, 0);
    }

    #[test]
    fn there_is_a_limit_to_values() {
        let many = [&[0x80, 2][..], &vec![b'N'; 5 << 20], b"."].concat();
        assert!(parse(&many).unwrap_err().contains("values"));
    }

    #[test]
    fn text_and_binary_protocols_say_the_same() {
        // {'a': (1, -2, 2.5, True), 'b': [300]}, in protocols 0, 2 and 4.
        let pickles = [
            &b"(dp0\nVa\np1\n(I1\nL-2L\nF2.5\nI01\ntp2\nsVb\n(lp3\nI300\nas."[..],
            b"\x80\x02}q\x00(X\x01\x00\x00\x00a(K\x01J\xfe\xff\xff\xffG@\x04\x00\x00\x00\x00\x00\x00\
              \x88tX\x01\x00\x00\x00b]M\x2c\x01au.",
            b"\x80\x04\x95\x22\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a(K\x01\x8a\x01\xfeG@\x04\x00\x00\
              \x00\x00\x00\x00\x88t\x8c\x01b]\x8b\x02\x00\x00\x00\x2c\x01au.",
        ];
        for pickle in pickles {
            let pickle = parse(pickle).unwrap();
            let json = pickle.json(pickle.root, 8, &mut 100);
            assert_eq!(
                json,
                serde_json::json!({ "a": [1, -2, 2.5, true], "b": [300] })
            );
        }
    }
}
