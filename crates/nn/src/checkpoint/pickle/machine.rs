//! The stack machine: opcodes of protocols 0 to 5 build values and do nothing else.
//!
//! An opcode keeps a few words at most and takes at least one byte, so memory is bounded by the
//! size of the pickle; lengths are checked against the bytes that are left before anything is
//! copied. A limit on all that is kept holds a large hostile pickle down to some hundred megabytes.

use std::collections::HashMap;

use super::input::{Input, Step};
use super::{Call, Id, Pickle, Value};

/// A checkpoint with its optimizer and a tokenizer stays below a million.
const MOST_KEPT: usize = 1 << 22;

struct Machine<'a> {
    input: Input<'a>,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    kept: usize,
}

/// Parses one pickle.
pub fn parse(input: &[u8]) -> Result<Pickle, String> {
    let mut machine = Machine {
        input: Input::new(input),
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        kept: 0,
    };
    loop {
        let start = machine.input.position();
        match machine.step() {
            Ok(None) => {}
            Ok(Some(root)) => {
                return Ok(Pickle {
                    values: machine.values,
                    root,
                });
            }
            Err(what) => return Err(format!("broken pickle: at byte {start}: {what}")),
        }
    }
}

impl Machine<'_> {
    /// Counts what is about to be kept.
    fn count(&mut self) -> Step<()> {
        self.kept += 1;
        if self.kept > MOST_KEPT {
            return Err(format!("it has more than {MOST_KEPT} values"));
        }
        Ok(())
    }

    fn store(&mut self, value: Value) -> Step<Id> {
        self.count()?;
        // In range, because what is kept is limited.
        let id = self.values.len() as Id;
        self.values.push(value);
        Ok(id)
    }

    fn push_id(&mut self, id: Id) -> Step<()> {
        self.count()?;
        self.stack.push(id);
        Ok(())
    }

    fn push(&mut self, value: Value) -> Step<()> {
        let id = self.store(value)?;
        self.stack.push(id);
        Ok(())
    }

    fn push_text(&mut self, bytes: &[u8]) -> Step<()> {
        self.push(Value::Str(String::from_utf8_lossy(bytes).into()))
    }

    /// Start of what lies above the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Step<Id> {
        let above = &self.stack[self.floor()..];
        above.last().copied().ok_or("the stack is empty".into())
    }

    fn pop(&mut self) -> Step<Id> {
        let id = self.top()?;
        self.stack.pop();
        Ok(id)
    }

    fn pop_mark(&mut self) -> Step<Vec<Id>> {
        let mark = self.marks.pop().ok_or("there is no mark")?;
        Ok(self.stack.split_off(mark))
    }

    fn pop_pairs(&mut self) -> Step<Vec<(Id, Id)>> {
        let items = self.pop_mark()?;
        let (pairs, rest) = items.as_chunks();
        if !rest.is_empty() {
            return Err("a key has no value".into());
        }
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    }

    fn tuple(&mut self, n: usize) -> Step<()> {
        let start = self.stack.len().checked_sub(n);
        let start = start.filter(|&start| start >= self.floor());
        let items = self.stack.split_off(start.ok_or("the stack is empty")?);
        self.push(Value::Tuple(items))
    }

    fn call(&mut self, callable: Id, arguments: Id) -> Step<()> {
        self.push(Value::Call(Box::new(Call {
            callable,
            arguments,
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
        })))
    }

    fn global_lines(&mut self) -> Step<Id> {
        let (module, name) = (self.input.line()?, self.input.line()?);
        let module = self.store(Value::Str(module.into()))?;
        let name = self.store(Value::Str(name.into()))?;
        self.store(Value::Global { module, name })
    }

    fn append(&mut self, new: &[Id]) -> Step<()> {
        let target = self.top()?;
        match &mut self.values[target as usize] {
            Value::List(items) => items.extend_from_slice(new),
            Value::Call(call) => call.items.extend_from_slice(new),
            _ => return Err("it appends to what is no list".into()),
        }
        Ok(())
    }

    fn set(&mut self, new: &[(Id, Id)]) -> Step<()> {
        let target = self.top()?;
        match &mut self.values[target as usize] {
            Value::Dict(pairs) => pairs.extend_from_slice(new),
            Value::Call(call) => call.pairs.extend_from_slice(new),
            _ => return Err("it sets an entry of what is no dict".into()),
        }
        Ok(())
    }

    fn build(&mut self) -> Step<()> {
        let state = self.pop()?;
        let target = self.top()?;
        match &mut self.values[target as usize] {
            Value::Call(call) => call.state = Some(state),
            _ => return Err("it gives a state to what is no object".into()),
        }
        Ok(())
    }

    fn remember(&mut self, key: u64) -> Step<()> {
        let id = self.top()?;
        self.count()?;
        self.memo.insert(key, id);
        Ok(())
    }

    fn recall(&mut self, key: u64) -> Step<()> {
        let id = self.memo.get(&key).copied();
        self.push_id(id.ok_or("it recalls what it never stored")?)
    }

    /// A two's complement number of any length.
    fn long(&mut self, bytes: &[u8]) -> Step<()> {
        let negative = bytes.last().is_some_and(|&top| top >= 0x80);
        let mut padded = if negative { [0xff; 8] } else { [0; 8] };
        match padded.get_mut(..bytes.len()) {
            Some(low) => low.copy_from_slice(bytes),
            None => return self.push(Value::Opaque),
        }
        self.push(Value::Int(i64::from_le_bytes(padded)))
    }

    /// One opcode; the root at the end.
    fn step(&mut self) -> Step<Option<Id>> {
        match self.input.byte()? {
            0x80 => {
                let protocol = self.input.byte()?;
                if protocol > 5 {
                    return Err(format!("protocol {protocol} is not known"));
                }
            }
            0x95 => {
                let frame = self.input.number(8)?;
                if frame > self.input.left() as u64 {
                    return Err("it ends too early".into());
                }
            }
            b'.' => return self.pop().map(Some),
            b'(' => {
                self.count()?;
                self.marks.push(self.stack.len());
            }
            b'0' => {
                // Python pops a mark, too.
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            b'1' => drop(self.pop_mark()?),
            b'2' => self.push_id(self.top()?)?,

            b'N' => self.push(Value::None)?,
            0x88 => self.push(Value::Bool(true))?,
            0x89 => self.push(Value::Bool(false))?,
            b'I' => {
                let line = self.input.line()?;
                let value = match line.as_str() {
                    "00" => Value::Bool(false),
                    "01" => Value::Bool(true),
                    digits => {
                        Value::Int(digits.trim().parse().map_err(|_| "a number is malformed")?)
                    }
                };
                self.push(value)?;
            }
            b'J' => {
                let bits = self.input.number(4)? as u32;
                self.push(Value::Int(i64::from(bits.cast_signed())))?;
            }
            opcode @ (b'K' | b'M') => {
                let n = self.input.number(if opcode == b'K' { 1 } else { 2 })?;
                self.push(Value::Int(n.cast_signed()))?;
            }
            b'L' => {
                let n = self.input.decimal()?;
                self.push(Value::Int(n))?;
            }
            0x8a => {
                let bytes = self.input.counted(1)?;
                self.long(bytes)?;
            }
            0x8b => {
                let bytes = self.input.counted(4)?;
                self.long(bytes)?;
            }
            b'F' => {
                let x = self.input.decimal()?;
                self.push(Value::Float(x))?;
            }
            b'G' => {
                let bits = self.input.number(8)?.swap_bytes();
                self.push(Value::Float(f64::from_bits(bits)))?;
            }

            // Escapes in the text forms are left as they are: no name that matters has any.
            b'S' => {
                let line = self.input.line()?;
                let text = line.trim().trim_matches(['\'', '"']);
                self.push(Value::Str(text.into()))?;
            }
            b'V' => {
                let line = self.input.line()?;
                self.push(Value::Str(line.into()))?;
            }
            b'U' | 0x8c => {
                let text = self.input.counted(1)?;
                self.push_text(text)?;
            }
            b'T' | b'X' => {
                let text = self.input.counted(4)?;
                self.push_text(text)?;
            }
            0x8d => {
                let text = self.input.counted(8)?;
                self.push_text(text)?;
            }
            opcode @ (b'C' | b'B' | 0x8e | 0x96) => {
                self.input.counted(match opcode {
                    b'C' => 1,
                    b'B' => 4,
                    _ => 8,
                })?;
                self.push(Value::Opaque)?;
            }

            b']' | 0x8f => self.push(Value::List(Vec::new()))?,
            b'l' | 0x91 => {
                let items = self.pop_mark()?;
                self.push(Value::List(items))?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_mark()?;
                self.append(&items)?;
            }
            b')' => self.push(Value::Tuple(Vec::new()))?,
            b't' => {
                let items = self.pop_mark()?;
                self.push(Value::Tuple(items))?;
            }
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b'}' => self.push(Value::Dict(Vec::new()))?,
            b'd' => {
                let pairs = self.pop_pairs()?;
                self.push(Value::Dict(pairs))?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(&[(key, value)])?;
            }
            b'u' => {
                let pairs = self.pop_pairs()?;
                self.set(&pairs)?;
            }

            b'p' => {
                let key = self.input.decimal()?;
                self.remember(key)?;
            }
            opcode @ (b'q' | b'r') => {
                let key = self.input.number(if opcode == b'q' { 1 } else { 4 })?;
                self.remember(key)?;
            }
            0x94 => self.remember(self.memo.len() as u64)?,
            b'g' => {
                let key = self.input.decimal()?;
                self.recall(key)?;
            }
            opcode @ (b'h' | b'j') => {
                let key = self.input.number(if opcode == b'h' { 1 } else { 4 })?;
                self.recall(key)?;
            }

            b'c' => {
                let global = self.global_lines()?;
                self.push_id(global)?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                self.push(Value::Global { module, name })?;
            }
            b'R' | 0x81 => {
                let arguments = self.pop()?;
                let callable = self.pop()?;
                self.call(callable, arguments)?;
            }
            0x92 => {
                let _keywords = self.pop()?;
                let arguments = self.pop()?;
                let callable = self.pop()?;
                self.call(callable, arguments)?;
            }
            b'o' => {
                let mut items = self.pop_mark()?;
                if items.is_empty() {
                    return Err("an object has no class".into());
                }
                let callable = items.remove(0);
                let arguments = self.store(Value::Tuple(items))?;
                self.call(callable, arguments)?;
            }
            b'i' => {
                let callable = self.global_lines()?;
                let items = self.pop_mark()?;
                let arguments = self.store(Value::Tuple(items))?;
                self.call(callable, arguments)?;
            }
            b'b' => self.build()?,
            b'P' => {
                let line = self.input.line()?;
                let name = self.store(Value::Str(line.into()))?;
                self.push(Value::Persistent(name))?;
            }
            b'Q' => {
                let name = self.pop()?;
                self.push(Value::Persistent(name))?;
            }
            opcode => return Err(format!("opcode {opcode:#04x} is not known")),
        }
        Ok(None)
    }
}
