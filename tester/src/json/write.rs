//! Writes JSON text.

use std::fmt::Write as _;

/// `text` as a JSON string, quotes included.
pub(crate) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{0}'..='\u{1f}' => {
                write!(out, "\\u{:04x}", u32::from(char)).expect("writing to a String cannot fail")
            }
            _ => out.push(char),
        }
    }
    out.push('"');
    out
}

/// `members` as a JSON object; each value is JSON already.
pub(crate) fn object<K: AsRef<str>>(members: &[(K, String)]) -> String {
    let members: Vec<_> =
        members.iter().map(|(key, value)| format!("{}:{value}", string(key.as_ref()))).collect();
    format!("{{{}}}", members.join(","))
}

pub(crate) fn null() -> String {
    "null".to_owned()
}

/// A number that is not finite has no JSON representation and becomes `null`.
pub(crate) fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(null, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Value, parse};

    #[test]
    fn written_string_parses_back() {
        for text in ["", "a", "\"\\/", "\u{0}\u{1f}\n\t\r\u{7f}", "é😀\u{2028}"] {
            assert_eq!(parse(string(text).as_bytes()), Ok(Value::String(text.to_owned())));
        }
        assert_eq!(string("a\"\n"), r#""a\"\u000a""#);
    }

    #[test]
    fn written_object_parses_back() {
        let text = object(&[("a\"", number(Some(0.5))), ("b", number(Some(f64::NAN))), ("c", null())]);
        let members = [("a\"", Value::Number("0.5".to_owned())), ("b", Value::Null), ("c", Value::Null)];
        let expected = Value::Object(members.map(|(key, value)| (key.to_owned(), value)).into());
        assert_eq!(parse(text.as_bytes()), Ok(expected));
    }
}
