//! A strict JSON parser (RFC 8259), and a writer.
//!
//! It rejects three things that the grammar allows and that a runtime should never send: a duplicate key, an
//! unpaired surrogate, and nesting deeper than [`MAX_DEPTH`].

mod write;

pub(crate) use write::{null, number, object, string};

use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As written: the caller decides whether `0` and `0.0` are equal.
    Number(String),
    String(String),
    Array(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

impl Value {
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.get(key),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// An integer, written without a fraction or an exponent.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Value::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        match self {
            Value::Object(members) => members.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

pub(crate) const MAX_DEPTH: usize = 32;

/// The error names the expected token and the byte offset.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("invalid UTF-8: {error}"))?;
    let mut reader = Reader { input: text };
    let value = reader.value(0).and_then(|value| {
        reader.skip_space();
        if reader.input.is_empty() { Ok(value) } else { Err("the end of the text") }
    });
    value.map_err(|expected| {
        format!("invalid JSON: expected {expected} at byte {}", text.len() - reader.input.len())
    })
}

type Expected = &'static str;

struct Reader<'a> {
    input: &'a str,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Expected> {
        if depth > MAX_DEPTH {
            return Err("less nesting");
        }
        self.skip_space();
        match self.input.bytes().next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            _ if self.skip("null") => Ok(Value::Null),
            _ if self.skip("true") => Ok(Value::Bool(true)),
            _ if self.skip("false") => Ok(Value::Bool(false)),
            _ => Err("a value"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Expected> {
        let mut members = BTreeMap::new();
        self.expect("{", "{")?;
        self.skip_space();
        if self.skip("}") {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let key = self.string()?;
            self.skip_space();
            self.expect(":", "a colon")?;
            let value = self.value(depth + 1)?;
            if members.insert(key, value).is_some() {
                return Err("unique keys");
            }
            self.skip_space();
            if self.skip("}") {
                return Ok(Value::Object(members));
            }
            self.expect(",", "a comma or }")?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Expected> {
        let mut items = Vec::new();
        self.expect("[", "[")?;
        self.skip_space();
        if self.skip("]") {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.skip("]") {
                return Ok(Value::Array(items));
            }
            self.expect(",", "a comma or ]")?;
        }
    }

    fn string(&mut self) -> Result<String, Expected> {
        self.expect("\"", "a string")?;
        let mut out = String::new();
        loop {
            let plain = self
                .input
                .find(|char: char| matches!(char, '"' | '\\') || char < ' ')
                .ok_or("a closing quote")?;
            out.push_str(self.next(plain)?);
            match self.next(1)? {
                "\"" => return Ok(out),
                "\\" => out.push(self.escape()?),
                _ => return Err("an escaped control character"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Expected> {
        Ok(match self.next(1)? {
            "\"" => '"',
            "\\" => '\\',
            "/" => '/',
            "b" => '\u{8}',
            "f" => '\u{c}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => return self.code_point(),
            _ => return Err("a valid escape"),
        })
    }

    fn code_point(&mut self) -> Result<char, Expected> {
        let first = self.four_hex()?;
        let code = match first {
            0xd800..0xdc00 => {
                self.expect("\\u", "a low surrogate")?;
                match self.four_hex()? {
                    second @ 0xdc00..0xe000 => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => return Err("a low surrogate"),
                }
            }
            _ => first,
        };
        char::from_u32(code).ok_or("a high surrogate")
    }

    fn four_hex(&mut self) -> Result<u32, Expected> {
        let digits = self.next(4)?;
        // from_str_radix alone would accept a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("four hexadecimal digits");
        }
        u32::from_str_radix(digits, 16).map_err(|_| "four hexadecimal digits")
    }

    fn number(&mut self) -> Result<String, Expected> {
        let start = self.input;
        self.skip("-");
        if !self.skip("0") {
            self.digits()?;
        }
        if self.skip(".") {
            self.digits()?;
        }
        if self.skip("e") || self.skip("E") {
            if !self.skip("+") {
                self.skip("-");
            }
            self.digits()?;
        }
        Ok(start.strip_suffix(self.input).unwrap_or(start).to_owned())
    }

    fn digits(&mut self) -> Result<(), Expected> {
        let remaining = self.input.trim_start_matches(|char: char| char.is_ascii_digit());
        if remaining.len() == self.input.len() {
            return Err("a digit");
        }
        self.input = remaining;
        Ok(())
    }

    fn skip_space(&mut self) {
        self.input = self.input.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn skip(&mut self, token: &str) -> bool {
        match self.input.strip_prefix(token) {
            Some(remaining) => {
                self.input = remaining;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str, expected: Expected) -> Result<(), Expected> {
        if self.skip(token) { Ok(()) } else { Err(expected) }
    }

    fn next(&mut self, bytes: usize) -> Result<&'a str, Expected> {
        let (text, remaining) = self.input.split_at_checked(bytes).ok_or("an ASCII character")?;
        self.input = remaining;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeral(text: &str) -> Value {
        Value::Number(text.to_owned())
    }

    #[track_caller]
    fn parses(text: &str, expected: Value) {
        assert_eq!(parse(text.as_bytes()), Ok(expected));
    }

    #[track_caller]
    fn refuses(text: &str) {
        assert!(parse(text.as_bytes()).is_err(), "{text:?} was parsed as {:?}", parse(text.as_bytes()));
    }

    #[test]
    fn every_kind_of_value_is_parsed() {
        parses("null", Value::Null);
        parses(" true\r\n", Value::Bool(true));
        parses("\tfalse", Value::Bool(false));
        for text in ["0", "-0", "10", "1.5", "-1.25e+10", "1E-3", "0e1"] {
            parses(text, numeral(text));
        }
        parses("[]", Value::Array(Vec::new()));
        parses("[1 , [2]]", Value::Array(vec![numeral("1"), Value::Array(vec![numeral("2")])]));
        parses("{ }", Value::Object(BTreeMap::new()));
        let member = ("a".to_owned(), numeral("1"));
        parses(r#"{"\u0061" : 1}"#, Value::Object(BTreeMap::from([member])));
    }

    #[test]
    fn every_escape_is_decoded() {
        let check = |text: &str, expected: &str| parses(text, Value::String(expected.to_owned()));
        check(r#""""#, "");
        check(r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t");
        check(r#""é\u00e9\ud83d\ude00😀""#, "éé😀😀");
        check("\"\u{7f}\u{2028}\"", "\u{7f}\u{2028}");
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in [
            "", " ", "nul", "nulll", "NaN", "Infinity", "'a'", "{1:2}", "{\"a\"}", "{\"a\":}", "[1,]", "[,1]",
        ] {
            refuses(text);
        }
        for text in
            ["{\"a\":1,}", "[1 2]", "[", "{", "[1]]", "1 2", "// x\n1", "\u{feff}1", "{\"a\":1", "\u{a0}1"]
        {
            refuses(text);
        }
        for text in ["01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "--1", "1.e1"] {
            refuses(text);
        }
        for text in
            [r#"""#, r#""\"#, r#""\x""#, r#""\u12""#, r#""\u+123""#, r#""\u00é""#, "\"a\nb\"", "\"\u{1f}\""]
        {
            refuses(text);
        }
        for text in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#""\ud83d\u0041""#, r#""\ud83d\ud83d""#] {
            refuses(text);
        }
        assert!(parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn duplicate_key_is_refused() {
        refuses(r#"{"a":1,"\u0061":1}"#);
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse(nested(MAX_DEPTH + 1).as_bytes()).is_ok());
        refuses(&nested(MAX_DEPTH + 2));
        refuses(&"[".repeat(1_000_000));
    }

    #[test]
    fn error_has_the_offset() {
        assert_eq!(parse(b"[1,x]"), Err("invalid JSON: expected a value at byte 3".to_owned()));
    }

    #[test]
    fn integer_has_no_fraction_or_exponent() {
        assert_eq!(numeral("-9").integer(), Some(-9));
        assert_eq!(numeral("0.0").integer(), None);
        assert_eq!(numeral("1e3").integer(), None);
    }
}
