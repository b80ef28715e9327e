//! Responses, parsed strictly: malformed ones are errors.

use crate::uninterrupted;
use serde_json::Value;
use std::fmt;
use std::io::{Error, ErrorKind, Read};

/// A complete response.
#[derive(Clone)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, rest) = self.body.split_at(self.body.len().min(1000));
        write!(f, "{} {:?} {}", self.status, self.headers, start.escape_ascii())?;
        f.write_str(if rest.is_empty() { "" } else { "..." })
    }
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the status and the JSON.
    #[track_caller]
    pub fn check(&self, status: u16, json: &Value) {
        assert_eq!((self.status, &self.json()), (status, json));
    }

    /// A head without its blank line.
    fn parse_head(head: &[u8]) -> Result<Self, String> {
        let is_plain = |byte: &u8| *byte == b' ' || byte.is_ascii_graphic();
        let mut lines = Vec::new();
        for line in head.split(|byte| *byte == b'\r').map(|line| line.strip_prefix(b"\n").unwrap_or(line)) {
            if !line.iter().all(is_plain) {
                return Err(format!("invalid line in a head: {}", line.escape_ascii()));
            }
            lines.push(String::from_utf8_lossy(line));
        }
        let code = lines[0].strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..4));
        let status = code.and_then(|code| code.trim_end().parse().ok());
        let status = status.ok_or_else(|| format!("invalid status line: {}", lines[0]))?;
        let mut headers = Vec::new();
        for line in &lines[1..] {
            let (name, value) = line.split_once(": ").ok_or_else(|| format!("invalid header: {line}"))?;
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Ok(Self { status, headers, body: Vec::new() })
    }
}

/// Reads responses from a source. `input` has the bytes that have been received and not yet used.
#[derive(Debug)]
pub struct Reader<'a, S> {
    source: S,
    input: &'a mut Vec<u8>,
}

impl<'a, S: Read> Reader<'a, S> {
    pub fn new(source: S, input: &'a mut Vec<u8>) -> Self {
        Self { source, input }
    }

    /// The next response to this method.
    ///
    /// # Errors
    /// The bytes are not a response.
    pub fn response(&mut self, method: &str) -> Result<Response, String> {
        let mut response = self.head()?;
        if method != "HEAD" && response.status != 304 && response.status >= 200 {
            response.body = self.body(&response)?;
        }
        Ok(response)
    }

    /// The next response, without its body.
    ///
    /// # Errors
    /// The bytes are not the head of a response.
    pub fn head(&mut self) -> Result<Response, String> {
        let head = self.until(b"\r\n\r\n", "a head without an end")?;
        Response::parse_head(&head)
    }

    /// The body behind this head.
    ///
    /// # Errors
    /// The bytes do not match what the head announces.
    pub fn body(&mut self, head: &Response) -> Result<Vec<u8>, String> {
        match (head.header("content-length"), head.header("transfer-encoding")) {
            (Some(length), None) => {
                let length = length.parse().map_err(|_| format!("invalid length: {length}"))?;
                self.take(length, "a body without an end")
            }
            (None, Some("chunked")) => self.chunks(),
            (None, None) => self.remaining(),
            both => Err(format!("contradictory framing: {both:?}")),
        }
    }

    /// All bytes up to the end of the source.
    ///
    /// # Errors
    /// Reading failed.
    pub fn remaining(&mut self) -> Result<Vec<u8>, String> {
        self.source.read_to_end(self.input).map_err(describe)?;
        Ok(std::mem::take(self.input))
    }

    fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = self.until(b"\r\n", "a chunk without a size")?;
            let size = std::str::from_utf8(&line).ok().and_then(|line| usize::from_str_radix(line, 16).ok());
            let size = size.ok_or_else(|| format!("invalid chunk size: {}", line.escape_ascii()))?;
            body.extend(self.take(size, "a chunk without an end")?);
            if self.take(2, "a chunk without an end")? != b"\r\n" {
                return Err("a chunk longer than its size".to_owned());
            }
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn take(&mut self, length: usize, fault: &str) -> Result<Vec<u8>, String> {
        while self.input.len() < length {
            self.fill(fault)?;
        }
        Ok(self.input.drain(..length).collect())
    }

    /// The bytes before this delimiter, which is removed too.
    fn until(&mut self, delimiter: &[u8], fault: &str) -> Result<Vec<u8>, String> {
        let mut searched = 0;
        loop {
            let found =
                self.input[searched..].windows(delimiter.len()).position(|window| window == delimiter);
            if let Some(end) = found.map(|at| searched + at) {
                let mut bytes: Vec<u8> = self.input.drain(..end + delimiter.len()).collect();
                bytes.truncate(end);
                return Ok(bytes);
            }
            searched = self.input.len().saturating_sub(delimiter.len() - 1);
            self.fill(fault)?;
        }
    }

    fn fill(&mut self, fault: &str) -> Result<(), String> {
        let mut piece = vec![0; 64 << 10];
        let count = uninterrupted(|| self.source.read(&mut piece)).map_err(describe)?;
        if count == 0 {
            let start = &self.input[..self.input.len().min(1000)];
            return Err(format!("{fault}: {}", start.escape_ascii()));
        }
        self.input.extend_from_slice(&piece[..count]);
        Ok(())
    }
}

/// A socket reports its timeout as `EAGAIN` (socket(7)).
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
fn describe(error: Error) -> String {
    if error.kind() == ErrorKind::WouldBlock { "timed out".to_owned() } else { error.to_string() }
}
