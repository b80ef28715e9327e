//! A response: a value in, the bytes of its head out (RFC 9112 section 4, RFC 9110).
//!
//! Every response states its length, except one that is begun before its length is known: that one is
//! chunked. A header value cannot break out of its line: bytes that could are replaced when it is added.
//! There is no Date header, because this folder reads no clock and RFC 9110 section 6.6.1 lets a server
//! without one omit it.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::io;

use super::Method;
use super::head::{Persistence, Version};
use super::status::Status;

/// The interim response to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A response, ready to be written.
#[derive(Debug)]
pub struct Response {
    pub head: ResponseHead,
    pub payload: Payload,
}

/// A response without its body.
#[derive(Debug)]
pub struct ResponseHead {
    pub status: Status,
    headers: Vec<(&'static str, Cow<'static, str>)>,
}

/// A body that is generated while it is written, and never held in memory as a whole.
pub trait Stream: fmt::Debug {
    /// Writes all of the body.
    ///
    /// # Errors
    /// Those of `out`.
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()>;
}

/// Where the body comes from.
#[derive(Debug)]
pub enum Payload {
    Empty,
    Bytes(Vec<u8>),
    Stream(Box<dyn Stream>),
    /// `length` bytes of `file` from `offset` on.
    File {
        file: File,
        offset: u64,
        length: u64,
    },
}

impl Payload {
    /// `None` if it is not known before the body is written.
    fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Stream(_) => None,
            Self::File { length, .. } => Some(*length),
        }
    }
}

impl Response {
    pub fn new(status: Status, payload: Payload) -> Self {
        Self { head: ResponseHead::new(status), payload }
    }

    /// Adds a header ([`ResponseHead::with`]).
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.head = self.head.with(name, value);
        self
    }

    /// Whether the payload follows the head (RFC 9112 section 6.3). `method` is the request's.
    pub fn has_body(&self, method: Method) -> bool {
        method != Method::Head && self.head.status.may_have_body()
    }

    /// The status line and all headers, blank line included. The same for GET and HEAD. `version` is the
    /// request's: the response is always HTTP/1.1, but an HTTP/1.0 client needs a header to know that its
    /// connection stays open.
    pub fn encode_head(&self, version: Version, persistence: Persistence) -> Vec<u8> {
        match self.payload.length() {
            None => self.head.encode_early(version, persistence),
            Some(length) if self.head.status.may_have_body() => {
                self.head.encode(HeadFraming::Length(length), version, persistence)
            }
            Some(_) => self.head.encode(HeadFraming::None, version, persistence),
        }
    }
}

impl ResponseHead {
    pub fn new(status: Status) -> Self {
        Self { status, headers: Vec::new() }
    }

    /// Adds a header. A character of its value that is not printable ASCII becomes `?`. The framing headers
    /// are added when the head is encoded.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        let mut value = value.into();
        if !value.chars().all(is_plain) {
            value =
                value.chars().map(|character| if is_plain(character) { character } else { '?' }).collect();
        }
        self.headers.push((name, value));
        self
    }

    /// The value of an added header, by its name in the same case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own_name, _)| *own_name == name).map(|(_, value)| value.as_ref())
    }

    /// A head for a body of unknown length: chunked, or for an HTTP/1.0 client delimited by closing the
    /// connection.
    pub fn encode_early(&self, version: Version, persistence: Persistence) -> Vec<u8> {
        match version {
            Version::Http10 => self.encode(HeadFraming::None, version, Persistence::Close),
            Version::Http11 => self.encode(HeadFraming::Chunked, version, persistence),
        }
    }

    fn encode(&self, framing: HeadFraming, version: Version, persistence: Persistence) -> Vec<u8> {
        let mut head = String::with_capacity(TYPICAL_HEAD_BYTES);
        write!(head, "HTTP/1.1 {} {}\r\n", self.status, self.status.reason()).expect(WRITES);
        match framing {
            HeadFraming::None => {}
            HeadFraming::Length(bytes) => write!(head, "Content-Length: {bytes}\r\n").expect(WRITES),
            HeadFraming::Chunked => push(&mut head, "Transfer-Encoding", "chunked"),
        }
        match (persistence, version) {
            (Persistence::Close, _) => push(&mut head, "Connection", "close"),
            (Persistence::KeepAlive, Version::Http10) => push(&mut head, "Connection", "keep-alive"),
            (Persistence::KeepAlive, Version::Http11) => {}
        }
        push(&mut head, "X-Content-Type-Options", "nosniff");
        for (name, value) in &self.headers {
            push(&mut head, name, value);
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// How the head delimits the body.
#[derive(Clone, Copy)]
enum HeadFraming {
    None,
    Length(u64),
    Chunked,
}

/// Enough for most heads to be built in one allocation.
const TYPICAL_HEAD_BYTES: usize = 512;

const WRITES: &str = "writing to a String cannot fail";

fn is_plain(character: char) -> bool {
    character == ' ' || character.is_ascii_graphic()
}

fn push(head: &mut String, name: &str, value: &str) {
    for piece in [name, ": ", value, "\r\n"] {
        head.push_str(piece);
    }
}

/// A Content-Disposition that makes a client save the body under this name (RFC 6266, RFC 8187).
///
/// A name of plain characters is sent unchanged. Any other name is sent in two forms: with `_` for each
/// character that is not plain, and percent-encoded for clients that support it. Bytes that are not UTF-8
/// become U+FFFD.
pub fn content_disposition(filename: &[u8]) -> String {
    // Some clients decode a percent escape in the first form, so `%` is not safe there.
    let is_safe = |character: char| is_plain(character) && !matches!(character, '"' | '\\' | '%');
    let name = String::from_utf8_lossy(filename);
    let fallback: String =
        name.chars().map(|character| if is_safe(character) { character } else { '_' }).collect();
    let mut value = format!("attachment; filename=\"{fallback}\"");
    if fallback != name {
        value.push_str("; filename*=utf-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
                value.push(char::from(byte));
            } else {
                write!(value, "%{byte:02X}").expect(WRITES);
            }
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_head(response: &Response, version: Version, persistence: Persistence, expected: &str) {
        let head = String::from_utf8(response.encode_head(version, persistence)).unwrap();
        assert_eq!(head, expected);
    }

    #[test]
    fn a_head_states_length_and_connection() {
        let response = Response::new(Status::OK, Payload::Bytes(b"{}".to_vec()))
            .with("Content-Type", "application/json");
        let expected = |connection: &str| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{connection}X-Content-Type-Options: nosniff\r\n\
                 Content-Type: application/json\r\n\r\n"
            )
        };
        check_head(&response, Version::Http11, Persistence::KeepAlive, &expected(""));
        check_head(&response, Version::Http11, Persistence::Close, &expected("Connection: close\r\n"));
        check_head(&response, Version::Http10, Persistence::Close, &expected("Connection: close\r\n"));
        check_head(
            &response,
            Version::Http10,
            Persistence::KeepAlive,
            &expected("Connection: keep-alive\r\n"),
        );
    }

    #[test]
    fn every_payload_states_its_length() {
        let file = File::open("/dev/null").unwrap();
        for (payload, length) in [
            (Payload::Empty, 0),
            (Payload::Bytes(vec![0; 10]), 10),
            (Payload::File { file, offset: 5, length: u64::MAX }, u64::MAX),
        ] {
            let expected = format!(
                "HTTP/1.1 404 Not Found\r\nContent-Length: {length}\r\n\
                 X-Content-Type-Options: nosniff\r\n\r\n"
            );
            check_head(
                &Response::new(Status::NOT_FOUND, payload),
                Version::Http11,
                Persistence::KeepAlive,
                &expected,
            );
        }
    }

    #[test]
    fn a_status_without_a_body_has_no_length() {
        for status in [Status::CONTINUE, Status::NO_CONTENT, Status::NOT_MODIFIED] {
            let response = Response::new(status, Payload::Empty);
            let head =
                String::from_utf8(response.encode_head(Version::Http11, Persistence::KeepAlive)).unwrap();
            assert!(!head.contains("Content-Length"), "{head}");
            assert!(!response.has_body(Method::Get));
        }
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        // HP-29
        let response = Response::new(Status::OK, Payload::Bytes(b"{}".to_vec()));
        assert!(response.has_body(Method::Get) && response.has_body(Method::Other));
        assert!(!response.has_body(Method::Head));
    }

    #[test]
    fn a_header_value_cannot_leave_its_line() {
        // DL-09
        let response = Response::new(Status::OK, Payload::Empty)
            .with("Allow", "a\r\nSet-Cookie: a=b\0\t\u{7f}\u{e9}".to_owned());
        assert_eq!(response.head.header("Allow"), Some("a??Set-Cookie: a=b????"));
        assert_eq!(response.head.header("Nothing"), None);
    }

    #[test]
    fn a_plain_file_name_is_unchanged() {
        // DL-13
        assert_eq!(content_disposition(b"f.txt"), r#"attachment; filename="f.txt""#);
        assert_eq!(content_disposition(b"a b;c=d'.txt"), r#"attachment; filename="a b;c=d'.txt""#);
    }

    #[test]
    fn any_other_file_name_is_sent_in_two_forms() {
        // DL-09
        for (name, expected) in [
            (&b"q\"q"[..], r#"attachment; filename="q_q"; filename*=utf-8''q%22q"#),
            (b"b\\b", r#"attachment; filename="b_b"; filename*=utf-8''b%5Cb"#),
            (b"p%41", r#"attachment; filename="p_41"; filename*=utf-8''p%2541"#),
            ("\u{5206}.txt".as_bytes(), r#"attachment; filename="_.txt"; filename*=utf-8''%E5%88%86.txt"#),
            (b"caf\xe9 x", r#"attachment; filename="caf_ x"; filename*=utf-8''caf%EF%BF%BD%20x"#),
            (
                b"n\r\nSet-Cookie: a=b",
                r#"attachment; filename="n__Set-Cookie: a=b"; filename*=utf-8''n%0D%0ASet-Cookie%3A%20a%3Db"#,
            ),
        ] {
            assert_eq!(content_disposition(name), expected);
        }
    }
}
