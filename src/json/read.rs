//! Reads one JSON object and keeps the fields that were asked for.
//!
//! Everything else is checked and skipped without recursion and without memory, so nesting has no limit
//! (JS-02). A duplicate key is an error, wherever it is on the top level: two parsers could otherwise
//! disagree about its value.

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

/// The value of a field. Its elements are not kept if it has any.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool,
    Number(f64),
    String(String),
    Array,
    Object,
}

/// Why a text is not an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not JSON, from this byte on.
    Syntax {
        offset: usize,
    },
    /// A value of another type.
    NotAnObject,
    DuplicateKey,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { offset } => write!(f, "invalid JSON at byte {offset}"),
            Self::NotAnObject => f.write_str("not a JSON object"),
            Self::DuplicateKey => f.write_str("duplicate key"),
        }
    }
}

impl std::error::Error for Error {}

/// Reads an object; returns the fields of these names, in this order. A byte order mark is accepted, as
/// Python's `json.loads` does (JS-04).
///
/// # Errors
/// The first problem.
pub fn object<const N: usize>(text: &[u8], names: [&str; N]) -> Result<[Option<Value>; N], Error> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    // serde_json does not check the strings that it skips.
    let utf8 = std::str::from_utf8(text).map_err(|error| Error::Syntax { offset: error.valid_up_to() })?;
    let mut reader = serde_json::Deserializer::from_str(utf8);
    let fields = reader.deserialize_any(ObjectVisitor(names)).and_then(|it| reader.end().map(|()| it));
    fields.map_err(|error| neutral(text, &error))?.ok_or(Error::NotAnObject)
}

fn neutral(text: &[u8], error: &serde_json::Error) -> Error {
    // The one error that is raised here and not by the parser.
    if error.is_data() {
        return Error::DuplicateKey;
    }
    let lines_before = text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    // Columns count from 1; at the end of the text no character is left to point at.
    let column = error.column().saturating_sub(usize::from(!error.is_eof()));
    Error::Syntax { offset: lines_before.map(<[u8]>::len).sum::<usize>() + column }
}

/// Visits the top level; `None` for JSON that is not an object.
struct ObjectVisitor<'a, const N: usize>([&'a str; N]);

impl<'de, const N: usize> Visitor<'de> for ObjectVisitor<'_, N> {
    type Value = Option<[Option<Value>; N]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = [const { None }; N];
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let wanted = fields.iter_mut().zip(self.0).find(|(_, name)| *name == key);
            match wanted {
                Some((field, _)) => *field = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            if !seen.insert(key) {
                return Err(A::Error::custom(Error::DuplicateKey));
            }
        }
        Ok(Some(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        skip_items(items).map(|()| None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

fn skip_items<'de, A: SeqAccess<'de>>(mut items: A) -> Result<(), A::Error> {
    while items.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "JSON numbers are read as doubles")]
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "JSON numbers are read as doubles")]
    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Bool)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Value, A::Error> {
        skip_items(items).map(|()| Value::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<[Option<Value>; 2], Error>) {
        assert_eq!(object(text.as_bytes(), ["a", "b"]), expected, "{text}");
    }

    #[test]
    fn the_named_fields_are_read() {
        let text = |text: &str| Some(Value::String(text.into()));
        check(r#"{"b":1.5,"a":"x"}"#, Ok([text("x"), Some(Value::Number(1.5))]));
        check(" {\n\"x\":[1,{}],\"a\" : \"\" , \"y\":null } \r\n", Ok([text(""), None]));
        check("\u{feff}{\"a\":\"bom\"}", Ok([text("bom"), None])); // JS-04
        check(r#"{"a":"\u0041\t\/\b\f\n\r\"\\"}"#, Ok([text("A\t/\u{8}\u{c}\n\r\"\\"), None])); // JS-14
        check(r#"{"a":"\ud83d\ude00","b":null}"#, Ok([text("\u{1f600}"), Some(Value::Null)])); // JS-03
        check(r#"{"a":[1,[2]],"b":{"c":{}}}"#, Ok([Some(Value::Array), Some(Value::Object)]));
        check(r#"{"a":true,"b":-7}"#, Ok([Some(Value::Bool), Some(Value::Number(-7.0))]));
    }

    #[test]
    fn nesting_of_any_depth_is_skipped() {
        // JS-02
        for (depth, field) in [(200, "a"), (200, "x"), (100_000, "a"), (100_000, "x")] {
            let text = format!(r#"{{"{field}":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
            let read = move || object(text.as_bytes(), ["a"]);
            let read = std::thread::Builder::new().stack_size(128 << 10).spawn(read).unwrap().join().unwrap();
            assert_eq!(read, Ok([(field == "a").then_some(Value::Array)]));
        }
    }

    #[test]
    fn invalid_json_is_refused_with_its_offset() {
        for (text, offset) in [
            (&b""[..], 0),
            (b"{bad", 1),
            (b"{\n\"a\":x}", 6),
            (br#"{"a":"x" "#, 9),
            (b"{\"a\":\"x\xff\"}", 7),
            (b"{\"a\":\"x\"} y", 10),
        ] {
            assert_eq!(object(text, ["a"]), Err(Error::Syntax { offset }), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn other_types_are_not_objects() {
        for text in ["[]", "[1,2]", "null", "5", "-5", "1.5", "true", "\"command\""] {
            check(text, Err(Error::NotAnObject));
        }
    }

    #[test]
    fn duplicate_keys_are_refused() {
        // JS-01
        check(r#"{"a":"x","a":"y"}"#, Err(Error::DuplicateKey));
        check(r#"{"x":1,"a":"x","x":1}"#, Err(Error::DuplicateKey));
        check(r#"{"a":"x","\u0061":"y"}"#, Err(Error::DuplicateKey));
    }
}
