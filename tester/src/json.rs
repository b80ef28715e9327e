//! JSON, strictly (RFC 8259): a reader that refuses what the grammar refuses, and two lookups in what was read.
//!
//! Stricter than the grammar in three places, because a runtime has no business sending such things: a key that
//! comes twice, a surrogate without its partner, and nesting deeper than [`DEEPEST`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As written: whether `0` and `0.0` are the same is for the caller to say.
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

    /// A whole number, written without a fraction or an exponent.
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

/// `text` as a JSON string, quotes included.
pub(crate) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{0}'..='\u{1f}' => write!(out, "\\u{:04x}", u32::from(c)).expect("a String takes any text"),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

pub(crate) const DEEPEST: usize = 32;

/// The error says what was expected and how many bytes in.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("JSON is not UTF-8: {error}"))?;
    let mut reader = Reader { rest: text };
    let value = reader.value(0).and_then(|value| {
        reader.space();
        if reader.rest.is_empty() { Ok(value) } else { Err("the end") }
    });
    value.map_err(|expected| {
        format!("not JSON: expected {expected} at byte {}", text.len() - reader.rest.len())
    })
}

type Expected = &'static str;

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Expected> {
        if depth > DEEPEST {
            return Err("less nesting");
        }
        self.space();
        match self.rest.bytes().next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            _ if self.take("null") => Ok(Value::Null),
            _ if self.take("true") => Ok(Value::Bool(true)),
            _ if self.take("false") => Ok(Value::Bool(false)),
            _ => Err("a value"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Expected> {
        let mut members = BTreeMap::new();
        self.need("{", "{")?;
        self.space();
        if self.take("}") {
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.need(":", "a colon")?;
            let value = self.value(depth + 1)?;
            if members.insert(key, value).is_some() {
                return Err("each key once");
            }
            self.space();
            if self.take("}") {
                return Ok(Value::Object(members));
            }
            self.need(",", "a comma or }")?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Expected> {
        let mut items = Vec::new();
        self.need("[", "[")?;
        self.space();
        if self.take("]") {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take("]") {
                return Ok(Value::Array(items));
            }
            self.need(",", "a comma or ]")?;
        }
    }

    fn string(&mut self) -> Result<String, Expected> {
        self.need("\"", "a string")?;
        let mut out = String::new();
        loop {
            let plain =
                self.rest.find(|c: char| c == '"' || c == '\\' || c < ' ').ok_or("a closing quote")?;
            out.push_str(self.next(plain)?);
            match self.next(1)? {
                "\"" => return Ok(out),
                "\\" => out.push(self.escape()?),
                _ => return Err("no bare control character"),
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
            _ => return Err("an escape"),
        })
    }

    fn code_point(&mut self) -> Result<char, Expected> {
        let first = self.four_hex()?;
        let code = match first {
            0xd800..0xdc00 => {
                self.need("\\u", "the second half of a surrogate pair")?;
                match self.four_hex()? {
                    second @ 0xdc00..0xe000 => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => return Err("the second half of a surrogate pair"),
                }
            }
            _ => first,
        };
        char::from_u32(code).ok_or("the first half of a surrogate pair")
    }

    fn four_hex(&mut self) -> Result<u32, Expected> {
        let digits = self.next(4)?;
        // from_str_radix alone would take a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("four hexadecimal digits");
        }
        u32::from_str_radix(digits, 16).map_err(|_| "four hexadecimal digits")
    }

    fn number(&mut self) -> Result<String, Expected> {
        let start = self.rest;
        self.take("-");
        if !self.take("0") {
            self.digits()?;
        }
        if self.take(".") {
            self.digits()?;
        }
        if self.take("e") || self.take("E") {
            if !self.take("+") {
                self.take("-");
            }
            self.digits()?;
        }
        Ok(start.strip_suffix(self.rest).unwrap_or(start).to_owned())
    }

    fn digits(&mut self) -> Result<(), Expected> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == self.rest.len() {
            return Err("a digit");
        }
        self.rest = rest;
        Ok(())
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: &str, expected: Expected) -> Result<(), Expected> {
        if self.take(token) { Ok(()) } else { Err(expected) }
    }

    fn next(&mut self, bytes: usize) -> Result<&'a str, Expected> {
        let (text, rest) = self.rest.split_at_checked(bytes).ok_or("more ASCII")?;
        self.rest = rest;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Value {
        Value::Number(text.to_owned())
    }

    #[track_caller]
    fn reads(text: &str, expected: Value) {
        assert_eq!(parse(text.as_bytes()), Ok(expected));
    }

    #[track_caller]
    fn refuses(text: &str) {
        assert!(parse(text.as_bytes()).is_err(), "{text:?} was read as {:?}", parse(text.as_bytes()));
    }

    #[test]
    fn values_of_every_kind_are_read() {
        reads("null", Value::Null);
        reads(" true\r\n", Value::Bool(true));
        reads("\tfalse", Value::Bool(false));
        for text in ["0", "-0", "10", "1.5", "-1.25e+10", "1E-3", "0e1"] {
            reads(text, number(text));
        }
        reads("[]", Value::Array(Vec::new()));
        reads("[1 , [2]]", Value::Array(vec![number("1"), Value::Array(vec![number("2")])]));
        reads("{ }", Value::Object(BTreeMap::new()));
        let member = ("a".to_owned(), number("1"));
        reads(r#"{"\u0061" : 1}"#, Value::Object(BTreeMap::from([member])));
    }

    #[test]
    fn strings_decode_every_escape() {
        let check = |text: &str, expected: &str| reads(text, Value::String(expected.to_owned()));
        check(r#""""#, "");
        check(r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t");
        check(r#""é\u00e9\ud83d\ude00😀""#, "éé😀😀");
        check("\"\u{7f}\u{2028}\"", "\u{7f}\u{2028}");
    }

    #[test]
    fn what_the_grammar_refuses_is_refused() {
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
    fn a_key_that_comes_twice_is_refused() {
        refuses(r#"{"a":1,"\u0061":1}"#);
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse(nested(DEEPEST + 1).as_bytes()).is_ok());
        refuses(&nested(DEEPEST + 2));
        refuses(&"[".repeat(1_000_000));
    }

    #[test]
    fn an_error_says_where() {
        assert_eq!(parse(b"[1,x]"), Err("not JSON: expected a value at byte 3".to_owned()));
    }

    #[test]
    fn only_a_plain_whole_number_is_an_integer() {
        assert_eq!(number("-9").integer(), Some(-9));
        assert_eq!(number("0.0").integer(), None);
        assert_eq!(number("1e3").integer(), None);
    }

    #[test]
    fn a_written_string_reads_back() {
        for text in ["", "a", "\"\\/", "\u{0}\u{1f}\n\t\r\u{7f}", "é😀\u{2028}"] {
            reads(&string(text), Value::String(text.to_owned()));
        }
        assert_eq!(string("a\"\n"), r#""a\"\u000a""#);
    }
}
