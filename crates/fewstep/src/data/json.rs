//! One field of a line of JSON, without building the rest of the line in memory.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The string under `name` in a JSON object.
pub(super) fn field(line: &str, name: &str) -> Result<String, String> {
    let mut json = serde_json::Deserializer::from_str(line);
    let text = Field(name).deserialize(&mut json);
    let text = text.and_then(|text| json.end().map(|()| text));
    let text = text.map_err(|e| format!("{e}; each line must be a JSON object with a text"))?;
    text.ok_or_else(|| format!("no field {name:?}; name the one with the text by --field"))
}

struct Field<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "an object with the field {:?}", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut text = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0 {
                text = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_or_what_is_wrong() {
        let line = r#"{"id": [1, {"text": "no"}], "text": "a\nb", "more": null}"#;
        assert_eq!(field(line, "text").unwrap(), "a\nb");
        assert!(
            field(line, "body")
                .unwrap_err()
                .contains("no field \"body\"")
        );
        for bad in ["[1]", r#"{"text": 3}"#, r#"{"text": "a"} x"#, r#"{"text"#] {
            assert!(field(bad, "text").is_err(), "{bad}");
        }
    }
}
