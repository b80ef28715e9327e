//! HTTP/1.0 and HTTP/1.1 messages: bytes to values and back (RFC 9110, RFC 9112, RFC 7578).
//!
//! Everything in this folder is pure: no socket, no clock, no environment, no thread. Where the RFCs allow
//! either to repair a message or to refuse it, it is refused: requests are smuggled past a proxy in messages
//! that two parsers read differently.
//!
//! Not in scope: HTTP/0.9, HTTP/2, upgrades, content codings, transfer codings other than `chunked`, trailers
//! (checked and dropped), `CONNECT` and `OPTIONS *`.

use std::fmt;

pub mod body;
pub mod chunked;
pub mod date;
pub mod head;
pub mod headers;
pub mod multipart;
mod params;
pub mod range;
pub mod response;
pub mod status;
pub mod target;

/// A request method. Methods are case-sensitive (RFC 9110 section 9.1): `get` is [`Method::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Patch,
    Options,
    Other,
}

impl Method {
    /// As in a request line and in an `Allow` header; empty for an unknown method.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Patch => "PATCH",
            Self::Options => "OPTIONS",
            Self::Other => "",
        }
    }

    fn from_token(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "PATCH" => Self::Patch,
            "OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }
}

/// Why a request was refused. It names no status code: only `api` chooses those.
///
/// Every one is the client's mistake, an unknown version or transfer coding included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    Malformed(&'static str),
    TargetTooLong,
    HeadTooLarge,
    TooManyHeaders,
    BodyTooLarge {
        limit: u64,
    },
    /// The Content-Length is past what a `u64` can hold.
    LengthTooLarge,
    /// The content type is not `multipart/form-data`.
    NotMultipart,
    /// The content type is `multipart/form-data` but names no boundary.
    NoBoundary,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(reason) => f.write_str(reason),
            Self::TargetTooLong => f.write_str("the request target is too long"),
            Self::HeadTooLarge => f.write_str("the request head is too large"),
            Self::TooManyHeaders => f.write_str("the request has too many headers"),
            Self::BodyTooLarge { limit } => write!(f, "the body is larger than {limit} bytes"),
            Self::LengthTooLarge => f.write_str("the Content-Length is too large"),
            Self::NotMultipart => f.write_str("the content type is not multipart/form-data"),
            Self::NoBoundary => f.write_str("the content type names no multipart boundary"),
        }
    }
}

impl std::error::Error for Error {}

/// Limits on the parts of a request, except its body: that limit depends on the endpoint.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Request line and headers in total, blank line included.
    pub head_bytes: usize,
    pub headers: usize,
    pub target_bytes: usize,
    /// The extensions of one chunk.
    pub chunk_line_bytes: usize,
    /// All trailer lines of one body in total.
    pub trailer_bytes: usize,
    /// The headers of one multipart part, blank line included.
    pub part_head_bytes: usize,
    pub parts: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 64 << 10,
            headers: 128,
            target_bytes: 16 << 10,
            chunk_line_bytes: 1 << 10,
            trailer_bytes: 16 << 10,
            part_head_bytes: 16 << 10,
            parts: 64,
        }
    }
}

/// Whether a Content-Type is JSON: `application/json` or `application/*+json`, in any case, with any
/// parameters.
pub fn is_json(content_type: &[u8]) -> bool {
    let subtype = match params::essence(content_type).split_at_checked(b"application/".len()) {
        Some((kind, subtype)) if kind.eq_ignore_ascii_case(b"application/") => subtype,
        _ => return false,
    };
    let suffix = subtype.len().checked_sub(b"+json".len()).map(|start| subtype.split_at(start));
    let is_suffixed =
        suffix.is_some_and(|(name, suffix)| !name.is_empty() && suffix.eq_ignore_ascii_case(b"+json"));
    is_suffixed || subtype.eq_ignore_ascii_case(b"json")
}

/// Whether a token may contain the byte: a method or a header's name (RFC 9110 section 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a header's value may contain the byte (RFC 9110 section 5.5), high bytes included.
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_content_types_are_recognised() {
        // JS-11
        for yes in [
            "application/json",
            "APPLICATION/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=utf-8",
            "application/vnd.x+json",
            "application/problem+JSON ; a=b",
        ] {
            assert!(is_json(yes.as_bytes()), "{yes}");
        }
        for no in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/jsonx",
            "application/+json",
            "application/x; a=+json",
            "text/json",
            "xapplication/json",
            "application/json text/plain",
        ] {
            assert!(!is_json(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn methods_are_case_sensitive() {
        assert_eq!(Method::from_token("GET"), Method::Get);
        assert_eq!(Method::from_token("get"), Method::Other);
        assert_eq!(Method::from_token("Post"), Method::Other);
        assert_eq!(Method::from_token("BREW"), Method::Other);
    }

    #[test]
    fn a_refusal_states_the_reason() {
        assert_eq!(Error::BodyTooLarge { limit: 7 }.to_string(), "the body is larger than 7 bytes");
        assert_eq!(Error::Malformed("a header has no colon").to_string(), "a header has no colon");
    }
}
