//! The JSON of the contract: requests and responses.
//!
//! A request is either valid or an [`Invalid`], worded like FastAPI, on which the reference is built.

use crate::files::{Entry, EntryKind};
use crate::json::read::{self, Value};
use crate::json::write::{ObjectWriter, StringWriter, ValueWriter, to_bytes};
use std::io;

/// The body of `POST /execute`.
#[derive(Debug, PartialEq)]
pub struct ExecuteRequest {
    pub command: String,
    /// Greater than 0.
    pub timeout_seconds: Option<f64>,
}

/// Why a body is invalid: one entry of `detail` in a 422 response.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    pub kind: &'static str,
    pub location: Location,
    pub message: &'static str,
}

/// The invalid part, below `body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    Body,
    Field(&'static str),
    /// A byte offset.
    Offset(usize),
}

impl From<read::Error> for Invalid {
    fn from(error: read::Error) -> Self {
        let (kind, location, message) = match error {
            read::Error::Syntax { offset } => ("json_invalid", Location::Offset(offset), "JSON decode error"),
            read::Error::NotAnObject => {
                ("model_attributes_type", Location::Body, "Input should be a valid dictionary or object")
            }
            read::Error::DuplicateKey => ("duplicate_key", Location::Body, "duplicate key"),
        };
        Self { kind, location, message }
    }
}

impl Invalid {
    fn field(name: &'static str, kind: &'static str, message: &'static str) -> Self {
        Self { kind, location: Location::Field(name), message }
    }

    pub(super) fn missing(name: &'static str) -> Self {
        Self::field(name, "missing", "Field required")
    }

    pub(super) fn not_json() -> Self {
        Self {
            kind: "model_attributes_type",
            location: Location::Body,
            message: "Content-Type must be application/json",
        }
    }

    /// The response: `{"detail":[{"type","loc","msg"}]}`.
    pub fn to_json(&self) -> Vec<u8> {
        to_bytes(|value| {
            let mut object = value.object()?;
            let mut details = object.field("detail")?.array()?;
            self.write(details.item()?)?;
            details.end()?;
            object.end()
        })
    }

    fn write(&self, value: ValueWriter<'_>) -> io::Result<()> {
        let mut detail = value.object()?;
        detail.field("type")?.string(self.kind)?;
        let mut location = detail.field("loc")?.array()?;
        location.item()?.string("body")?;
        match self.location {
            Location::Body => {}
            Location::Field(name) => location.item()?.string(name)?,
            Location::Offset(offset) => location.item()?.integer(offset as u64)?,
        }
        location.end()?;
        detail.field("msg")?.string(self.message)?;
        detail.end()
    }
}

const COMMAND: &str = "command";
const TIMEOUT: &str = "timeout_seconds";

impl ExecuteRequest {
    /// Reads the JSON. Unknown fields are ignored; a duplicate key is refused, known or not.
    ///
    /// # Errors
    /// The first problem.
    pub fn from_json(body: &[u8]) -> Result<Self, Invalid> {
        let [command, timeout] = read::object(body, [COMMAND, TIMEOUT])?;
        Ok(Self { command: string(command)?, timeout_seconds: positive_number(timeout)? })
    }
}

fn string(value: Option<Value>) -> Result<String, Invalid> {
    match value {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Invalid::field(COMMAND, "string_type", "Input should be a valid string")),
        None => Err(Invalid::missing(COMMAND)),
    }
}

fn positive_number(value: Option<Value>) -> Result<Option<f64>, Invalid> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) if number > 0.0 => Ok(Some(number)),
        Some(Value::Number(_)) => {
            Err(Invalid::field(TIMEOUT, "greater_than", "Input should be greater than 0"))
        }
        Some(_) => Err(Invalid::field(TIMEOUT, "float_type", "Input should be a valid number")),
    }
}

/// The beginning of the response to `POST /execute`. Standard output may follow in parts before the rest of
/// the response is known ([`ExecuteResponse::write_rest`]).
///
/// # Errors
/// Those of `out`.
pub fn begin_execute(out: &mut dyn io::Write) -> io::Result<()> {
    ValueWriter::new(out).object()?.field("stdout")?.begin_string().map(drop)
}

/// The response to `POST /execute`. The flags are present only if true.
#[derive(Debug)]
pub struct ExecuteResponse<'a> {
    /// The parts of standard output that have not been streamed. No part begins or ends inside a character.
    pub stdout: &'a [&'a [u8]],
    pub stderr: &'a [&'a [u8]],
    pub exit_code: i32,
    pub timed_out: bool,
    pub truncated: bool,
}

impl ExecuteResponse<'_> {
    /// Writes the rest, after [`begin_execute`] and the streamed parts.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_rest(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write_text(StringWriter::resume(out), self.stdout)?;
        let mut object = ObjectWriter::resume(out);
        write_text(object.field("stderr")?.begin_string()?, self.stderr)?;
        object.field("exit_code")?.integer(self.exit_code)?;
        for (name, is_true) in [("timed_out", self.timed_out), ("truncated", self.truncated)] {
            if is_true {
                object.field(name)?.bool(true)?;
            }
        }
        object.end()
    }
}

fn write_text(mut string: StringWriter<'_>, parts: &[&[u8]]) -> io::Result<()> {
    parts.iter().try_for_each(|part| string.push(part))?;
    string.end()
}

/// The response to `GET /`.
pub(super) fn health(value: ValueWriter<'_>) -> io::Result<()> {
    let mut object = value.object()?;
    object.field("status")?.string("ok")?;
    object.field("message")?.string("Sandbox Runtime is active.")?;
    object.end()
}

/// The response to `GET /exists/{path}`.
pub(super) fn exists(value: ValueWriter<'_>, path: &[u8], exists: bool) -> io::Result<()> {
    let mut object = value.object()?;
    object.field("path")?.string(path)?;
    object.field("exists")?.bool(exists)?;
    object.end()
}

/// One entry of the response to `GET /list/{path}`. Times are in seconds since the epoch.
pub(super) fn entry(value: ValueWriter<'_>, entry: &Entry) -> io::Result<()> {
    let kind = if entry.kind == EntryKind::Directory { "directory" } else { "file" };
    let mut object = value.object()?;
    object.field("name")?.string(&entry.name)?;
    object.field("size")?.integer(entry.size)?;
    object.field("type")?.string(kind)?;
    object.field("mod_time")?.float(entry.modified.epoch_seconds())?;
    object.end()
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
        accepts(br#"{"command":"\u0000"}"#, "\0");
    }

    #[test]
    fn other_bodies_are_refused() {
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
        refuses(br#"{"command":"echo a","command":"echo b"}"#, "duplicate_key"); // JS-01
    }

    #[test]
    fn a_timeout_is_a_number_greater_than_0() {
        let timeout = |value: &str| {
            let body = format!(r#"{{"command":"a","timeout_seconds":{value}}}"#);
            ExecuteRequest::from_json(body.as_bytes()).map(|request| request.timeout_seconds)
        };
        assert_eq!(timeout("1"), Ok(Some(1.0)));
        assert_eq!(timeout("0.05"), Ok(Some(0.05)));
        assert_eq!(timeout("1.7e308"), Ok(Some(1.7e308)));
        assert_eq!(timeout("null"), Ok(None));
        for number in ["0", "-0.0", "-1"] {
            assert_eq!(timeout(number).unwrap_err().kind, "greater_than");
        }
        for other in ["\"5\"", "true", "[]", "{}"] {
            assert_eq!(timeout(other).unwrap_err().kind, "float_type");
        }
    }

    #[track_caller]
    fn check_detail(body: &[u8], expected: &str) {
        let invalid = ExecuteRequest::from_json(body).unwrap_err();
        assert_eq!(String::from_utf8(invalid.to_json()).unwrap(), expected);
    }

    #[test]
    fn an_error_names_the_place() {
        check_detail(
            b"{\n\"command\":x}",
            r#"{"detail":[{"type":"json_invalid","loc":["body",12],"msg":"JSON decode error"}]}"#,
        );
        check_detail(
            b"{}",
            r#"{"detail":[{"type":"missing","loc":["body","command"],"msg":"Field required"}]}"#,
        );
        check_detail(
            b"[]",
            concat!(
                r#"{"detail":[{"type":"model_attributes_type","loc":["body"],"#,
                r#""msg":"Input should be a valid dictionary or object"}]}"#,
            ),
        );
    }

    #[test]
    fn a_response_has_three_keys_and_true_flags() {
        let mut response = ExecuteResponse {
            stdout: &[b"out\n"],
            stderr: &[b"a", b"b"],
            exit_code: -9,
            timed_out: false,
            truncated: false,
        };
        let json = |response: &ExecuteResponse<'_>| {
            let mut json = Vec::new();
            begin_execute(&mut json).unwrap();
            response.write_rest(&mut json).unwrap();
            String::from_utf8(json).unwrap()
        };
        assert_eq!(json(&response), r#"{"stdout":"out\n","stderr":"ab","exit_code":-9}"#);
        (response.timed_out, response.truncated) = (true, true);
        assert_eq!(
            json(&response),
            r#"{"stdout":"out\n","stderr":"ab","exit_code":-9,"timed_out":true,"truncated":true}"#
        );
    }
}
