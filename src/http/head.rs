//! A request head: bytes in; a value, "not yet" or a refusal out (RFC 9112 sections 2 to 6, RFC 9110).
//!
//! `httparse` reads the syntax. It is stricter than the RFC in some places and looser in others; this file
//! also refuses a bare LF as a line end and more than two empty lines at the front. The meaning of the head,
//! above all where the body ends, is decided here. A [`Head`] has exactly one framing, one host and one value
//! of each header that two parsers could read differently.

use super::headers::Headers;
use super::target::{Target, is_host};
use super::{Error, Limits, Method, is_token_byte};
use std::mem::MaybeUninit;

/// A request without its body.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub method: Method,
    pub target: Target,
    pub version: Version,
    pub framing: Framing,
    /// Whether the client wants the connection to stay open after the response.
    pub persistence: Persistence,
    /// The client waits for `100 Continue` before it sends the body. Never true for HTTP/1.0.
    pub expect_continue: bool,
    pub headers: Headers,
}

/// The protocol version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    /// In bytes.
    Length(u64),
    Chunked,
}

/// Whether a connection stays open after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    Close,
    KeepAlive,
}

/// Reads a head from the front of `bytes`. Returns it with the number of bytes consumed, or `None` if its end
/// has not arrived yet; then call again with the same bytes and more.
///
/// Every call reads all bytes again, but at most `limits.head_bytes` of them: a client that sends a head byte
/// by byte costs about as much here as in the read(2) calls it causes.
///
/// # Errors
/// The head is malformed or past its limits.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Option<(Head, usize)>, Error> {
    let rest = without_empty_lines(bytes);
    match rest {
        [] | [b'\r'] => return Ok(None),
        // A TLS handshake, for example, is refused at its first byte.
        [first, ..] if !is_token_byte(*first) => return Err(Error::Malformed("this is not an HTTP request")),
        _ => {}
    }
    let window = rest.get(..limits.head_bytes).unwrap_or(rest);
    check_request_line(window, limits)?;
    match through_blank_line(window)? {
        Some(head) => Ok(Some((read(head, limits)?, bytes.len() - rest.len() + head.len()))),
        None if rest.len() >= limits.head_bytes => Err(Error::HeadTooLarge),
        None => Ok(None),
    }
}

/// RFC 9112 section 2.2 asks servers to ignore "at least one" empty line, which old clients send after a
/// body.
fn without_empty_lines(bytes: &[u8]) -> &[u8] {
    let rest = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    rest.strip_prefix(b"\r\n").unwrap_or(rest)
}

/// Refuses a request line that is too long, even before its end has arrived.
fn check_request_line(window: &[u8], limits: &Limits) -> Result<(), Error> {
    const METHOD_BYTES: usize = 32;
    let line = window.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut parts = line.split(|byte| *byte == b' ');
    if parts.next().is_some_and(|method| method.len() > METHOD_BYTES) {
        return Err(Error::Malformed("the method is too long"));
    }
    if parts.next().is_some_and(|target| target.len() > limits.target_bytes) {
        return Err(Error::TargetTooLong);
    }
    Ok(())
}

/// The front of `window` through its first blank line, if that has arrived.
fn through_blank_line(window: &[u8]) -> Result<Option<&[u8]>, Error> {
    let mut length = 0;
    for line in window.split_inclusive(|byte| *byte == b'\n') {
        length += line.len();
        match line {
            [b'\r', b'\n'] => return Ok(window.get(..length)),
            [.., b'\r', b'\n'] => {}
            [.., b'\n'] => return Err(Error::Malformed("a line of the head ends in a bare line feed")),
            _ => break,
        }
    }
    Ok(None)
}

/// More than the default of [`Limits::headers`]. The array is on the stack, so that parsing allocates
/// nothing.
const MAX_HEADERS: usize = 256;

/// Reads a complete head.
fn read(bytes: &[u8], limits: &Limits) -> Result<Head, Error> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let (slots, _) = slots.split_at_mut(limits.headers.min(MAX_HEADERS));
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, slots).map_err(refusal)? {
        httparse::Status::Complete(used) if used == bytes.len() => {}
        _ => return Err(Error::Malformed("the head does not end at its blank line")),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(Error::Malformed("the request line is incomplete"));
    };
    // httparse accepts only these two.
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let headers = headers(request.headers, bytes.len())?;
    check_host(version, headers.get("host"))?;
    let expects = headers.all("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue"));
    Ok(Head {
        method: Method::from_token(method),
        target: Target::parse(target.as_bytes())?,
        version,
        framing: framing(version, headers.get("content-length"), headers.get("transfer-encoding"))?,
        persistence: persistence(version, headers.get("connection").unwrap_or_default()),
        expect_continue: expects && version == Version::Http11,
        headers,
    })
}

fn refusal(error: httparse::Error) -> Error {
    match error {
        httparse::Error::HeaderName => Error::Malformed("a header's name is malformed"),
        httparse::Error::HeaderValue => Error::Malformed("a header's value is malformed"),
        httparse::Error::NewLine => Error::Malformed("a line end is malformed"),
        httparse::Error::Token | httparse::Error::Status => Error::Malformed("the request line is malformed"),
        httparse::Error::TooManyHeaders => Error::TooManyHeaders,
        httparse::Error::Version => Error::Malformed("the version is neither HTTP/1.0 nor HTTP/1.1"),
    }
}

fn headers(fields: &[httparse::Header<'_>], head_bytes: usize) -> Result<Headers, Error> {
    let mut headers = Headers::with_capacity(head_bytes);
    fields.iter().try_for_each(|field| headers.push(field.name, field.value))?;
    Ok(headers)
}

/// RFC 9112 section 9.3.
fn persistence(version: Version, options: &[u8]) -> Persistence {
    let has = |wanted: &[u8]| {
        options.split(|byte| *byte == b',').any(|option| option.trim_ascii().eq_ignore_ascii_case(wanted))
    };
    match version {
        _ if has(b"close") => Persistence::Close,
        Version::Http10 if !has(b"keep-alive") => Persistence::Close,
        Version::Http10 | Version::Http11 => Persistence::KeepAlive,
    }
}

/// RFC 9112 section 3.2. An empty host is a valid one.
fn check_host(version: Version, host: Option<&[u8]>) -> Result<(), Error> {
    match host {
        Some(host) if is_host(host) => Ok(()),
        Some(_) => Err(Error::Malformed("the Host header is not a host")),
        None if version == Version::Http10 => Ok(()),
        None => Err(Error::Malformed("there is no Host header")),
    }
}

/// RFC 9112 section 6.3. Where it leaves a choice, the request is refused.
fn framing(version: Version, length: Option<&[u8]>, coding: Option<&[u8]>) -> Result<Framing, Error> {
    match (length, coding) {
        (None, None) => Ok(Framing::None),
        (Some(length), None) => Ok(Framing::Length(content_length(length)?)),
        (Some(_), Some(_)) => {
            Err(Error::Malformed("there are both a Content-Length and a Transfer-Encoding"))
        }
        (None, Some(_)) if version == Version::Http10 => {
            Err(Error::Malformed("an HTTP/1.0 request has a Transfer-Encoding"))
        }
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        (None, Some(_)) => Err(Error::Malformed("the Transfer-Encoding is not chunked")),
    }
}

/// Digits only: the standard library's parser accepts a sign. A number past `u64` is not malformed but too
/// large.
fn content_length(digits: &[u8]) -> Result<u64, Error> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Error::Malformed("the Content-Length is not a number"));
    }
    digits
        .iter()
        .try_fold(0_u64, |length, digit| length.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(Error::LengthTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `bytes` whole, and like a caller that reads one byte at a time (CN-16); both must have the same
    /// outcome.
    #[track_caller]
    fn parsed_with(bytes: &[u8], limits: &Limits) -> Result<Option<(Head, usize)>, Error> {
        let whole = parse(bytes, limits);
        let mut grown = Ok(None);
        for end in 1..=bytes.len() {
            grown = parse(&bytes[..end], limits);
            if grown != Ok(None) {
                break;
            }
        }
        assert_eq!(whole, grown, "whole and byte by byte: {}", bytes.escape_ascii());
        whole
    }

    #[track_caller]
    fn accepted(bytes: &[u8]) -> Head {
        match parsed_with(bytes, &Limits::default()) {
            Ok(Some((head, used))) => {
                assert_eq!(used, bytes.len(), "{}", bytes.escape_ascii());
                head
            }
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }

    /// A GET with a Host and these header lines, each ended by CRLF.
    fn with(lines: &str) -> Vec<u8> {
        format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n").into_bytes()
    }

    #[track_caller]
    fn check_refused(bytes: &[u8]) {
        let outcome = parsed_with(bytes, &Limits::default());
        assert!(matches!(outcome, Err(Error::Malformed(_))), "{}: {outcome:?}", bytes.escape_ascii());
    }

    #[track_caller]
    fn check_lines_refused(lines: &str) {
        check_refused(&with(lines));
    }

    #[test]
    fn a_plain_request_is_read() {
        let head = accepted(b"GET /exists/a%20b?x HTTP/1.1\r\nHost: x:8888\r\n\r\n");
        assert_eq!(head.method, Method::Get);
        assert_eq!(head.target.path, b"/exists/a b");
        assert_eq!(head.version, Version::Http11);
        assert_eq!(head.framing, Framing::None);
        assert_eq!(head.persistence, Persistence::KeepAlive);
        assert!(!head.expect_continue);
        assert_eq!(head.headers.get("content-type"), None);
    }

    #[test]
    fn headers_are_kept() {
        let head = accepted(&with(
            "CONTENT-TYPE:\t application/json \r\nRange: bytes=0-1\r\nif-range: \"e\"\r\n\
             If-None-Match: \"n\"\r\nIf-Modified-Since: d\r\nAuthorization: Bearer t\r\nX-Api-Key: k\r\n",
        ));
        assert_eq!(head.headers.get("content-type"), Some(&b"application/json"[..]));
        assert_eq!(head.headers.get("range"), Some(&b"bytes=0-1"[..]));
        assert_eq!(head.headers.get("if-range"), Some(&b"\"e\""[..]));
        assert_eq!(head.headers.get("if-none-match"), Some(&b"\"n\""[..]));
        assert_eq!(head.headers.get("if-modified-since"), Some(&b"d"[..]));
        assert_eq!(head.headers.get("authorization"), Some(&b"Bearer t"[..]));
        assert_eq!(head.headers.get("x-api-key"), Some(&b"k"[..]));
    }

    #[test]
    fn the_first_of_a_repeated_condition_wins() {
        let head = accepted(&with("If-None-Match: a\r\nIf-None-Match: b\r\n"));
        assert_eq!(head.headers.get("if-none-match"), Some(&b"a"[..]));
    }

    #[test]
    fn a_repeated_header_with_two_readings_is_refused() {
        for name in ["Content-Type", "Range", "Authorization", "X-API-Key", "Host", "Content-Length"] {
            check_lines_refused(&format!("{name}: 1\r\n{name}: 1\r\n"));
        }
    }

    #[test]
    fn a_head_is_incomplete_before_its_blank_line() {
        for part in [
            "",
            "\r",
            "\r\n",
            "\r\n\r\n",
            "\r\n\r\n\r",
            "G",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\r",
        ] {
            assert_eq!(parse(part.as_bytes(), &Limits::default()), Ok(None), "{part:?}");
        }
    }

    #[test]
    fn bytes_after_the_head_are_left_alone() {
        let head = b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n";
        let wire = [&head[..], b"\r\n\n\0"].concat();
        let (parsed, used) = parse(&wire, &Limits::default()).unwrap().unwrap();
        assert_eq!((parsed.framing, used), (Framing::Length(4), head.len()));
    }

    #[test]
    fn up_to_two_leading_empty_lines_are_ignored() {
        accepted(b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
        accepted(b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"\rGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    }

    #[test]
    fn other_protocols_are_refused_at_their_first_byte() {
        for greeting in [&b"\x16"[..], b"\0", b" ", b"{", b"\x80"] {
            check_refused(greeting);
        }
    }

    #[test]
    fn lengths_are_digits_only() {
        // HP-05
        for (value, length) in [("0", 0), ("20", 20), ("00020", 20), ("18446744073709551615", u64::MAX)] {
            assert_eq!(
                accepted(&with(&format!("Content-Length: {value}\r\n"))).framing,
                Framing::Length(length)
            );
        }
        for value in [
            "-1",
            "+20",
            "0x14",
            "20a",
            "2 0",
            "",
            " ",
            "20.0",
            "1e2",
            "\u{662}\u{660}",
            "20, 20",
            "20,",
            "20;",
            "1_0",
        ] {
            check_lines_refused(&format!("Content-Length: {value}\r\n"));
        }
    }

    #[test]
    fn a_length_past_the_largest_number_is_too_large() {
        // HP-05
        for value in ["18446744073709551616", "99999999999999999999999"] {
            let outcome = parsed_with(&with(&format!("Content-Length: {value}\r\n")), &Limits::default());
            assert_eq!(outcome, Err(Error::LengthTooLarge));
        }
    }

    #[test]
    fn a_length_is_stated_once() {
        // HP-04
        check_lines_refused("Content-Length: 20\r\nContent-Length: 5\r\n");
        check_lines_refused("Content-Length: 20\r\nContent-Length: 20\r\n");
        check_lines_refused("Content-Length: 20\r\ncontent-length:\r\n");
    }

    #[test]
    fn only_one_chunked_coding_is_accepted() {
        assert_eq!(accepted(&with("Transfer-Encoding: chunked\r\n")).framing, Framing::Chunked);
        assert_eq!(accepted(&with("transfer-encoding:CHUNKED \r\n")).framing, Framing::Chunked);
        for value in [
            "",
            "identity",
            "gzip",
            "gzip, chunked",
            "chunked, chunked",
            "chunked,",
            ",chunked",
            "xchunked",
            "chunked;a",
        ] {
            check_lines_refused(&format!("Transfer-Encoding: {value}\r\n"));
        }
        check_lines_refused("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n");
        check_lines_refused("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n");
        check_lines_refused("Transfer-Encoding: \x0bchunked\r\n");
    }

    #[test]
    fn a_length_and_a_coding_together_are_refused() {
        // HP-01
        check_lines_refused("Content-Length: 20\r\nTransfer-Encoding: chunked\r\n");
        check_lines_refused("Transfer-Encoding: chunked\r\nContent-Length: 20\r\n");
        check_lines_refused("Transfer-Encoding: identity\r\nContent-Length: 20\r\n");
    }

    #[test]
    fn a_coding_in_http_1_0_is_refused() {
        // HP-13
        check_refused(
            b"POST /execute HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n",
        );
    }

    #[test]
    fn folded_lines_and_white_space_before_a_colon_are_refused() {
        // HP-16
        check_lines_refused("X-A: b\r\n Content-Length: 0\r\nContent-Length: 20\r\n");
        check_lines_refused("X-A: b\r\n\tc\r\n");
        check_lines_refused("X-A : b\r\n");
        check_lines_refused("Content-Length\t: 20\r\n");
        check_refused(b"GET / HTTP/1.1\r\n Host: x\r\n\r\n");
    }

    #[test]
    fn control_bytes_and_broken_lines_are_refused() {
        // HP-17
        for line in [
            "X-A: b\0c",
            "X\u{e9}A: b",
            "X-A: b\rc",
            ": v",
            "garbage",
            "X-A: b\x1b",
            "X-A: b\x7f",
            "X A: b",
            "X\0: b",
        ] {
            check_lines_refused(&format!("{line}\r\n"));
        }
        check_refused(b"GET / HTTP/1.1\r\nHost: x\r\nX\xffA: b\r\n\r\n");
        check_refused(b"GET / HTTP/1.1\rHost: x\r\n\r\n");
    }

    #[test]
    fn high_bytes_in_a_value_are_accepted() {
        // HP-17
        accepted(b"GET / HTTP/1.1\r\nHost: x\r\nX: \xc3\xa9\xff\r\n\r\n");
    }

    #[test]
    fn a_bare_line_feed_is_refused() {
        check_refused(b"GET / HTTP/1.1\nHost: x\n\n");
        check_refused(b"GET / HTTP/1.1\r\nHost: x\n\r\n");
        check_refused(b"GET / HTTP/1.1\r\nHost: x\r\n\n");
        check_refused(b"GET / HTTP/1.1\r\nX-A: b\nContent-Length: 3\r\nHost: x\r\n\r\n");
    }

    #[test]
    fn other_versions_are_refused() {
        // HP-20
        check_refused(b"GET /\r\n\r\n");
        for version in [
            "HTTP/2.0",
            "HTTP/1.2",
            "HTTP/11.1",
            "http/1.1",
            "HTTP/1",
            "HTTP/1.1 x",
            "HTTP/1.01",
            "HTTP/0.9",
            "",
        ] {
            check_refused(format!("GET / {version}\r\nHost: x\r\n\r\n").as_bytes());
        }
        check_refused(b"PRI * HTTP/2.0\r\n\r\n");
    }

    #[test]
    fn a_request_line_has_three_parts_and_single_spaces() {
        check_refused(b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"GET /  HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n");
        check_refused(b"GE(T / HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"GET * HTTP/1.1\r\nHost: x\r\n\r\n");
        check_refused(b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n");
    }

    #[test]
    fn raw_high_bytes_in_a_target_are_utf_8_or_refused() {
        // HP-38
        let head = accepted(b"GET /exists/caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(head.target.path, b"/exists/caf\xc3\xa9");
        check_refused(b"GET /exists/caf\xe9 HTTP/1.1\r\nHost: x\r\n\r\n");
    }

    #[test]
    fn a_request_has_one_valid_host() {
        for host in ["", "x", "x:8888", "[::1]:8888", "a-b.c_d~", "10.0.0.1"] {
            accepted(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        }
        for host in ["a b", "a,b", "a/b", "u@h", "a\"b", "a<b", "\u{e9}", "a\\b", "a?b", "a#b"] {
            check_refused(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        }
        check_refused(b"GET / HTTP/1.1\r\n\r\n");
        check_refused(b"GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n");
        check_refused(b"GET http://other/ HTTP/1.1\r\n\r\n");
        check_refused(b"GET / HTTP/1.0\r\nHost: a b\r\n\r\n");
        accepted(b"GET / HTTP/1.0\r\n\r\n");
    }

    #[test]
    fn close_wins_and_http_1_0_closes_by_default() {
        // HP-28
        for (version, lines, expected) in [
            ("1.1", "", Persistence::KeepAlive),
            ("1.1", "Connection: close\r\n", Persistence::Close),
            ("1.1", "Connection: TE, CLOSE\r\n", Persistence::Close),
            ("1.1", "Connection: keep-alive\r\nConnection: x ,close\r\n", Persistence::Close),
            ("1.1", "Connection: close\r\nConnection: keep-alive\r\n", Persistence::Close),
            ("1.1", "Connection: closed\r\n", Persistence::KeepAlive),
            ("1.1", "Connection: \r\n", Persistence::KeepAlive),
            ("1.0", "", Persistence::Close),
            ("1.0", "Connection: Keep-Alive\r\n", Persistence::KeepAlive),
            ("1.0", "Connection: keep-alive, close\r\n", Persistence::Close),
            ("1.0", "TE: identity;q=1, chunked;q=0\r\nConnection: TE, close\r\n", Persistence::Close),
        ] {
            let head = accepted(format!("GET / HTTP/{version}\r\nHost: x\r\n{lines}\r\n").as_bytes());
            assert_eq!(head.persistence, expected, "{version} {lines:?}");
        }
    }

    #[test]
    fn only_http_1_1_can_expect_a_continue() {
        // HP-34
        assert!(accepted(&with("Expect: 100-continue\r\n")).expect_continue);
        assert!(accepted(&with("expect: 100-Continue\r\n")).expect_continue);
        assert!(!accepted(&with("Expect: 200-ok\r\n")).expect_continue);
        assert!(!accepted(b"GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expect_continue);
    }

    #[test]
    fn an_upgrade_is_ignored() {
        // HP-36
        let head = accepted(&with(
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        ));
        assert_eq!((head.persistence, head.framing), (Persistence::KeepAlive, Framing::None));
    }

    #[test]
    fn headers_are_bounded_in_number() {
        // HP-22
        accepted(&with(&"X-N: y\r\n".repeat(64)));
        accepted(&with(&"X-N: y\r\n".repeat(127)));
        let limits = Limits::default();
        assert_eq!(parse(&with(&"X-N: y\r\n".repeat(128)), &limits), Err(Error::TooManyHeaders));
        assert_eq!(parse(&with(&"X-N: y\r\n".repeat(5000)), &limits), Err(Error::TooManyHeaders));
    }

    #[test]
    fn an_endless_head_or_target_is_refused_at_its_limit() {
        // HP-23
        let limits = Limits { head_bytes: 200, target_bytes: 50, ..Limits::default() };
        let target = |length: usize| format!("GET /{}", "a".repeat(length - 1));
        let finish = " HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(parsed_with(target(50).as_bytes(), &limits), Ok(None));
        assert!(matches!(parsed_with((target(50) + finish).as_bytes(), &limits), Ok(Some(_))));
        assert_eq!(parsed_with(target(51).as_bytes(), &limits), Err(Error::TargetTooLong));
        assert_eq!(parsed_with((target(51) + finish).as_bytes(), &limits), Err(Error::TargetTooLong));
        assert_eq!(parsed_with((target(500) + finish).as_bytes(), &limits), Err(Error::TargetTooLong));

        let exact = with(&format!("X: {}\r\n", "v".repeat(200 - with("X: \r\n").len())));
        assert_eq!(exact.len(), 200);
        assert!(matches!(parsed_with(&exact, &limits), Ok(Some((_, 200)))));
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "v".repeat(181));
        assert_eq!(endless.len(), 200);
        assert_eq!(parsed_with(&endless.as_bytes()[..199], &limits), Ok(None));
        assert_eq!(parsed_with(endless.as_bytes(), &limits), Err(Error::HeadTooLarge));
        assert_eq!(
            parsed_with(&with(&format!("X: {}\r\n", "v".repeat(300))), &limits),
            Err(Error::HeadTooLarge)
        );
        let spaces = format!("GET / HTTP/1.1{}", " ".repeat(300));
        assert_eq!(parsed_with(spaces.as_bytes(), &limits), Err(Error::HeadTooLarge));
        check_refused("A".repeat(33).as_bytes());
    }
}
