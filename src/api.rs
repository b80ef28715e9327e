//! The JSON of the wire contract, and nothing else: requests in, answers out. The only file that knows serde.
//!
//! A request is either exactly what was asked for or an [`Invalid`], whose words are those that FastAPI uses. Nesting
//! of any depth in a field that is not ours is skipped without recursion (JS-02).

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::io;

/// The body of `POST /execute`.
#[derive(Debug, PartialEq)]
pub struct ExecuteRequest {
    pub command: String,
    /// Greater than 0.
    pub timeout_seconds: Option<f64>,
}

/// Why a body is not what was asked for: one entry of `detail` in a 422 answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    pub kind: &'static str,
    /// Where: the field, below `body`.
    pub field: Option<&'static str>,
    /// Where in a text that is not JSON, in bytes from its beginning.
    pub offset: Option<usize>,
    pub message: String,
}

impl Invalid {
    /// Something is wrong with one field of the body, or with all of it (`None`).
    pub fn new(kind: &'static str, field: Option<&'static str>, message: &str) -> Self {
        Self { kind, field, offset: None, message: message.to_owned() }
    }
}

impl ExecuteRequest {
    /// Reads the JSON. Unknown fields are ignored; a key that comes twice is refused, whichever it is.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn from_json(body: &[u8]) -> Result<Self, Invalid> {
        // Python's json.loads takes UTF-8 with a byte order mark (JS-04).
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        // serde_json does not look into the strings that it skips.
        let text = std::str::from_utf8(body).map_err(|error| no_json_at(error.valid_up_to()))?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = reader.deserialize_any(BodyVisitor).and_then(|fields| reader.end().map(|()| fields));
        let fields = read.map_err(|error| not_json(body, &error))?;
        let Some(Fields { command, timeout_seconds }) = fields else {
            return Err(Invalid::new(
                "model_attributes_type",
                None,
                "Input should be a valid dictionary or object",
            ));
        };
        let command = match command {
            None => return Err(Invalid::new("missing", Some("command"), "Field required")),
            Some(Scalar::Text(command)) => command,
            Some(_) => {
                return Err(Invalid::new("string_type", Some("command"), "Input should be a valid string"));
            }
        };
        let number = Some("timeout_seconds");
        let timeout_seconds = match timeout_seconds {
            None | Some(Scalar::Null) => None,
            Some(Scalar::Number(seconds)) if seconds > 0.0 => Some(seconds),
            Some(Scalar::Number(_)) => {
                return Err(Invalid::new("greater_than", number, "Input should be greater than 0"));
            }
            Some(_) => return Err(Invalid::new("float_type", number, "Input should be a valid number")),
        };
        Ok(Self { command, timeout_seconds })
    }
}

fn not_json(body: &[u8], error: &serde_json::Error) -> Invalid {
    if error.is_data() {
        return Invalid::new("duplicate_key", None, "a key comes twice");
    }
    let lines_before = body.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    // Columns count from 1; at the end of the text there is no character to point at.
    let column = error.column().saturating_sub(usize::from(!error.is_eof()));
    no_json_at(lines_before.map(<[u8]>::len).sum::<usize>() + column)
}

fn no_json_at(offset: usize) -> Invalid {
    Invalid { offset: Some(offset), ..Invalid::new("json_invalid", None, "JSON decode error") }
}

/// The fields that are ours, of whatever kind the client sent.
#[derive(Default)]
struct Fields {
    command: Option<Scalar>,
    timeout_seconds: Option<Scalar>,
}

/// The body: `None` when it is JSON, but no object.
struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Option<Fields>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "command" => fields.command = Some(map.next_value()?),
                "timeout_seconds" => fields.timeout_seconds = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            if !seen.insert(key) {
                return Err(serde::de::Error::custom("a key comes twice"));
            }
        }
        Ok(Some(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
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

/// A value, as far as a field can care.
enum Scalar {
    Text(String),
    Number(f64),
    Null,
    Other,
}

impl<'de> serde::Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(text))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds above 2^53 are all the same to a clock")]
    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds above 2^53 are all the same to a clock")]
    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// Bytes that a command wrote, in pieces, as text. Each piece is decoded by itself; what is not UTF-8 becomes U+FFFD,
/// one for each maximal invalid part, as in Python's `errors="replace"`.
#[derive(Clone, Debug)]
pub struct Text<'a>(pub Vec<&'a [u8]>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().flat_map(|piece| Decoded(piece)).try_for_each(|part| f.write_str(part))
    }
}

/// The text of one piece, in parts: what is valid, and U+FFFD for what is not.
struct Decoded<'a>(&'a [u8]);

/// The size of a part: it is escaped in memory before it is written.
const PART_BYTES: usize = 16 << 10;

impl<'a> Iterator for Decoded<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (window, _) = self.0.split_at(self.0.len().min(PART_BYTES));
        let (part, taken) = match std::str::from_utf8(window) {
            Ok("") => return None,
            Ok(text) => (text, text.len()),
            Err(error) => match (error.valid_up_to(), error.error_len()) {
                (0, invalid) => ("\u{fffd}", invalid.unwrap_or(window.len())),
                (valid, _) => (std::str::from_utf8(window.split_at(valid).0).unwrap_or_default(), valid),
            },
        };
        self.0 = self.0.split_at(taken).1;
        Some(part)
    }
}

/// Appends bytes as text inside of a JSON string.
pub fn push_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    Decoded(bytes).for_each(|part| push_escaped_text(part, out));
}

/// Most text needs no escape: a block that needs none is copied as it is.
fn push_escaped_text(text: &str, out: &mut Vec<u8>) {
    let (blocks, rest) = text.as_bytes().as_chunks::<8>();
    out.reserve(text.len());
    for block in blocks {
        if block.iter().fold(true, |plain, byte| plain & is_plain(*byte)) {
            out.extend_from_slice(block);
        } else {
            block.iter().for_each(|byte| push_escaped_byte(*byte, out));
        }
    }
    rest.iter().for_each(|byte| push_escaped_byte(*byte, out));
}

/// RFC 8259 section 7.
const fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
}

#[expect(clippy::indexing_slicing, reason = "there is one for each byte")]
fn push_escaped_byte(byte: u8, out: &mut Vec<u8>) {
    static ESCAPES: [Escape; 256] = Escape::all();
    let Escape { bytes, length } = &ESCAPES[usize::from(byte)];
    // Copying a fixed size and taking back is several times faster than copying just what is needed.
    out.extend_from_slice(bytes);
    out.truncate(out.len() - bytes.len() + length);
}

/// One byte of text, as it is inside of a JSON string: the first `length` of these.
#[derive(Clone, Copy)]
struct Escape {
    bytes: [u8; 8],
    length: usize,
}

impl Escape {
    const fn new(byte: u8) -> Self {
        let short = match byte {
            byte if is_plain(byte) => return Self { bytes: [byte, 0, 0, 0, 0, 0, 0, 0], length: 1 },
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\t' => b't',
            b'\r' => b'r',
            0x08 => b'b',
            0x0c => b'f',
            _ => {
                let bytes = [b'\\', b'u', b'0', b'0', hex_digit(byte >> 4), hex_digit(byte & 15), 0, 0];
                return Self { bytes, length: 6 };
            }
        };
        Self { bytes: [b'\\', short, 0, 0, 0, 0, 0, 0], length: 2 }
    }

    #[expect(clippy::indexing_slicing, reason = "there is one for each byte")]
    const fn all() -> [Self; 256] {
        let mut all = [Self::new(0); 256];
        let mut byte = u8::MAX;
        while byte > 0 {
            all[byte as usize] = Self::new(byte);
            byte -= 1;
        }
        all
    }
}

const fn hex_digit(number: u8) -> u8 {
    if number < 10 { b'0' + number } else { b'a' + number - 10 }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How the answer to `POST /execute` begins. Standard output may follow in parts ([`push_escaped`]) before the rest of the
/// answer is known ([`ExecuteResponse::write_rest`]).
pub const EXECUTE_BEGINS: &[u8] = b"{\"stdout\":\"";

/// The answer to `POST /execute`. `timed_out` and `truncated` are there only when true.
#[derive(Debug)]
pub struct ExecuteResponse<'a> {
    /// What has not been written yet.
    pub stdout: Text<'a>,
    pub stderr: Text<'a>,
    pub exit_code: i32,
    pub timed_out: bool,
    pub truncated: bool,
}

impl ExecuteResponse<'_> {
    /// Writes all that comes after [`EXECUTE_BEGINS`] and the parts that have been written.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_rest(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.stdout.write_escaped(out)?;
        out.write_all(b"\",\"stderr\":\"")?;
        self.stderr.write_escaped(out)?;
        write!(out, "\",\"exit_code\":{}", self.exit_code)?;
        for (key, is_true) in [("timed_out", self.timed_out), ("truncated", self.truncated)] {
            if is_true {
                write!(out, ",\"{key}\":true")?;
            }
        }
        out.write_all(b"}")
    }

    /// The text of the whole answer.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = EXECUTE_BEGINS.to_vec();
        // Writing to memory can not fail.
        let _cannot_fail = self.write_rest(&mut json);
        json
    }
}

impl Text<'_> {
    /// Writes it as it is inside of a JSON string, a piece of it at a time.
    fn write_escaped(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut escaped = Vec::new();
        for part in self.0.iter().flat_map(|piece| Decoded(piece)) {
            push_escaped_text(part, &mut escaped);
            out.write_all(&escaped)?;
            escaped.clear();
        }
        Ok(())
    }
}

/// The answer to `GET /`.
#[derive(Debug)]
pub struct Health;

impl Serialize for Health {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Health", 2)?;
        object.serialize_field("status", "ok")?;
        object.serialize_field("message", "Sandbox Runtime is active.")?;
        object.end()
    }
}

/// One sentence to the client, about a file.
#[derive(Debug)]
pub struct Message<'a>(pub &'a str);

impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        single(serializer, "message", self.0)
    }
}

/// One sentence to the client, about the request itself.
#[derive(Debug)]
pub struct Detail<'a>(pub &'a str);

impl Serialize for Detail<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        single(serializer, "detail", self.0)
    }
}

/// The answer to a body that is not what was asked for: `{"detail":[{"type","loc","msg"}]}`.
#[derive(Debug)]
pub struct Unprocessable<'a>(pub &'a Invalid);

impl Serialize for Unprocessable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        single(serializer, "detail", &[self.0])
    }
}

impl Serialize for Invalid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Invalid", 3)?;
        object.serialize_field("type", self.kind)?;
        object.serialize_field("loc", &Location(self))?;
        object.serialize_field("msg", &self.message)?;
        object.end()
    }
}

struct Location<'a>(&'a Invalid);

impl Serialize for Location<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        list.serialize_element("body")?;
        if let Some(field) = self.0.field {
            list.serialize_element(field)?;
        }
        if let Some(offset) = self.0.offset {
            list.serialize_element(&offset)?;
        }
        list.end()
    }
}

/// An object with one field.
fn single<S: Serializer>(
    serializer: S,
    name: &str,
    value: &(impl Serialize + ?Sized),
) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(1))?;
    object.serialize_entry(name, value)?;
    object.end()
}

/// The answer to `GET /exists/{path}`.
#[derive(Debug)]
pub struct Exists<'a> {
    pub path: Text<'a>,
    pub exists: bool,
}

impl Serialize for Exists<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Exists", 2)?;
        object.serialize_field("path", &self.path)?;
        object.serialize_field("exists", &self.exists)?;
        object.end()
    }
}

/// One entry of the answer to `GET /list/{path}`.
#[derive(Debug)]
pub struct Entry<'a> {
    pub name: Text<'a>,
    pub size_bytes: u64,
    pub is_directory: bool,
    /// Seconds since the epoch.
    pub modified: f64,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Entry", 4)?;
        object.serialize_field("name", &self.name)?;
        object.serialize_field("size", &self.size_bytes)?;
        object.serialize_field("type", if self.is_directory { "directory" } else { "file" })?;
        object.serialize_field("mod_time", &self.modified)?;
        object.end()
    }
}

/// An array whose items are made one at a time, so that a long listing is held once.
pub fn array<'a, T: Serialize>(items: impl Iterator<Item = T> + Clone + 'a) -> impl Serialize + 'a {
    Array(items)
}

struct Array<I>(I);

impl<T: Serialize, I: Iterator<Item = T> + Clone> Serialize for Array<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// Writes the text of any of these answers as it is made.
///
/// # Errors
/// Those of `out`.
pub fn write_json(answer: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    Ok(serde_json::to_writer(out, answer)?)
}

/// The text of any of these answers.
pub fn to_json(answer: &impl Serialize) -> Vec<u8> {
    // Writing to memory can not fail, and none of the answers above has a key that is not a string.
    serde_json::to_vec(answer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn accepts(body: &[u8], command: &str) {
        let request = ExecuteRequest::from_json(body);
        assert_eq!(request.map(|request| request.command).as_deref(), Ok(command));
    }

    #[track_caller]
    fn refuses(body: &[u8], kind: &str) {
        let invalid = ExecuteRequest::from_json(body).expect_err("it should be refused");
        assert_eq!(invalid.kind, kind, "{}", body.escape_ascii());
    }

    #[test]
    fn a_command_is_read() {
        accepts(br#"{"command":"echo a"}"#, "echo a");
        accepts(b" {\n\"x\":[1,{}],\"command\" : \"\" , \"y\":null } \r\n", "");
        accepts(b"\xef\xbb\xbf{\"command\":\"bom\"}", "bom"); // JS-04
        accepts(br#"{"command":"\u0041\t\/\b\f\n\r\"\\"}"#, "A\t/\u{8}\u{c}\n\r\"\\"); // JS-14
        accepts(br#"{"command":"\ud83d\ude00"}"#, "\u{1f600}"); // JS-03
        accepts(br#"{"command":"\u0000"}"#, "\0");
    }

    #[test]
    fn nesting_of_any_depth_is_skipped() {
        // JS-02
        for depth in [200, 100_000] {
            for field in ["x", "command"] {
                let nested = format!(r#""{field}":{}{}"#, "[".repeat(depth), "]".repeat(depth));
                let body = if field == "x" {
                    format!(r#"{{"command":"deep",{nested}}}"#)
                } else {
                    format!("{{{nested}}}")
                };
                let read = std::thread::Builder::new()
                    .stack_size(128 * 1024)
                    .spawn(move || ExecuteRequest::from_json(body.as_bytes()))
                    .unwrap()
                    .join()
                    .unwrap();
                assert_eq!(read.is_ok(), field == "x");
            }
        }
    }

    #[test]
    fn what_is_not_the_json_asked_for_is_refused() {
        for body in [
            &b""[..],
            b"{bad",
            b"{\"command\":\"echo a\"",
            b"{\"command\":\"echo a\"} x",
            b"{\"command\":\"echo a\",}",
            b"{'command':'x'}",
            b"{\"command\":\"a\nb\"}",
            b"{\"command\":NaN}",                  // JS-10
            b"{\"command\":\"echo a\",\"x\":NaN}", // JS-10
            b"{\"command\":\"\\ud83d\"}",          // JS-03
            b"{\"command\":\"\\ude00\\ud83d\"}",   // JS-03
            b"{\"command\":\"\xff\"}",
            b"{\"command\":\"a\",\"x\":\"\xff\"}",
            b"{\"command\":\"a\",\"x\":[{\"y\":\"\xed\xa0\xbd\"}]}",
            b"{\"command\":\"a\",\"timeout_seconds\":1e999}",
        ] {
            refuses(body, "json_invalid"); // JS-07
        }
        refuses(b"{}", "missing");
        for body in [&b"[]"[..], b"[1,2]", b"null", b"5", b"-5", b"1.5", b"true", b"\"command\""] {
            refuses(body, "model_attributes_type");
        }
        for value in ["null", "5", "-5", "1.5", "true", "[\"a\"]", "{\"a\":1}"] {
            refuses(format!("{{\"command\":{value}}}").as_bytes(), "string_type");
        }
    }

    #[test]
    fn a_key_that_comes_twice_is_refused() {
        // JS-01
        refuses(br#"{"command":"echo a","command":"echo b"}"#, "duplicate_key");
        refuses(br#"{"x":1,"command":"echo a","x":1}"#, "duplicate_key");
        refuses(br#"{"command":"a","\u0063ommand":"b"}"#, "duplicate_key");
    }

    #[test]
    fn a_timeout_is_a_number_above_zero() {
        let timeout = |value: &str| {
            let body = format!(r#"{{"command":"a","timeout_seconds":{value}}}"#);
            ExecuteRequest::from_json(body.as_bytes()).map(|request| request.timeout_seconds)
        };
        assert_eq!(timeout("1"), Ok(Some(1.0)));
        assert_eq!(timeout("0.05"), Ok(Some(0.05)));
        assert_eq!(timeout("1.7e308"), Ok(Some(1.7e308)));
        assert_eq!(timeout("null"), Ok(None));
        for zero in ["0", "-0.0", "-1"] {
            assert_eq!(timeout(zero).unwrap_err().kind, "greater_than");
        }
        for other in ["\"5\"", "true", "[]", "{}"] {
            assert_eq!(timeout(other).unwrap_err().kind, "float_type");
        }
    }

    #[test]
    fn an_error_says_where() {
        let invalid = ExecuteRequest::from_json(b"{\n\"command\":x}").unwrap_err();
        assert_eq!(
            String::from_utf8(to_json(&Unprocessable(&invalid))).unwrap(),
            r#"{"detail":[{"type":"json_invalid","loc":["body",12],"msg":"JSON decode error"}]}"#
        );
        assert_eq!(ExecuteRequest::from_json(br#"{"command":"x" "#).unwrap_err().offset, Some(15));
        assert_eq!(ExecuteRequest::from_json(b"{\"command\":\"x\xff\"}").unwrap_err().offset, Some(13));
        let invalid = ExecuteRequest::from_json(b"{}").unwrap_err();
        assert_eq!(
            String::from_utf8(to_json(&Unprocessable(&invalid))).unwrap(),
            r#"{"detail":[{"type":"missing","loc":["body","command"],"msg":"Field required"}]}"#
        );
    }

    #[track_caller]
    fn text(bytes: &[u8], expected: &str) {
        assert_eq!(String::from_utf8(to_json(&Text(vec![bytes]))).unwrap(), expected);
        let mut inside = Vec::new();
        push_escaped(bytes, &mut inside);
        assert_eq!(format!("\"{}\"", String::from_utf8(inside).unwrap()), expected);
    }

    #[test]
    fn bytes_become_text_without_loss_of_what_is_valid() {
        text(b"ok\xff\xfeend", "\"ok\u{fffd}\u{fffd}end\""); // OU-06
        text(b"a\r\nb\rc", r#""a\r\nb\rc""#); // OU-09
        text(b"\x1b[31m\x01\x08\x7f\t\"\\\0", "\"\\u001b[31m\\u0001\\b\u{7f}\\t\\\"\\\\\\u0000\""); // OU-12
        text(b"\xed\xa0\xbd \xf0\x9f\x98", "\"\u{fffd}\u{fffd}\u{fffd} \u{fffd}\""); // OU-13
    }

    #[test]
    fn an_answer_has_exactly_three_keys_unless_something_was_cut() {
        let mut answer = ExecuteResponse {
            stdout: Text(vec![b"out\n"]),
            stderr: Text(vec![b"a", b"b"]),
            exit_code: -9,
            timed_out: false,
            truncated: false,
        };
        assert_eq!(answer.to_json(), br#"{"stdout":"out\n","stderr":"ab","exit_code":-9}"#);
        (answer.timed_out, answer.truncated) = (true, true);
        assert_eq!(
            answer.to_json(),
            br#"{"stdout":"out\n","stderr":"ab","exit_code":-9,"timed_out":true,"truncated":true}"#
        );
    }
}
