//! A request target: the path a client asked for, decoded (RFC 9112 section 3.2, RFC 3986).
//!
//! The query and the fragment are cut off first and the path is percent-decoded exactly once after that, so
//! `%3F` is a question mark in a name and `%2541` is `%41`. Dot segments, repeated slashes and NUL bytes are
//! kept: what they mean is for the code that opens files to say.

use super::Error;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Begins with `/`. Any bytes may follow.
    pub path: Vec<u8>,
}

impl Target {
    /// Reads the origin form (`/path?query`) or the absolute form (`http://host/path?query`).
    pub fn parse(bytes: &[u8]) -> Result<Target, Error> {
        if bytes.iter().any(|b| *b == b' ' || b.is_ascii_control()) {
            return Err(Error::Malformed("the request target has a space or a control byte in it"));
        }
        let origin = match bytes {
            [b'/', ..] => bytes,
            _ => after_authority(bytes)?,
        };
        let path = origin.split(|b| matches!(b, b'?' | b'#')).next().unwrap_or_default();
        // Only an absolute form can have an empty path: `http://host?query`.
        Ok(Target { path: if path.is_empty() { b"/".to_vec() } else { percent_decoded(path) } })
    }
}

/// What follows `http://host` in the absolute form. The other forms, `*` and `host:port`, are refused.
fn after_authority(bytes: &[u8]) -> Result<&[u8], Error> {
    let rest = strip_scheme(bytes, b"http://")
        .or_else(|| strip_scheme(bytes, b"https://"))
        .ok_or(Error::Malformed("the request target is neither a path nor an http address"))?;
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    match rest.split_at_checked(end) {
        Some((host, after)) if !host.is_empty() && is_host(host) => Ok(after),
        _ => Err(Error::Malformed("the request target has no valid host")),
    }
}

fn strip_scheme<'a>(bytes: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = bytes.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Whether these bytes can be a host and a port. The comma that RFC 3986 allows in a name is left out: it is
/// how two Host headers look after a proxy has joined them. So is `@`: user information is not for servers.
pub(super) fn is_host(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(b))
}

/// Each `%` with two hexadecimal digits after it becomes one byte; any other `%` is itself (CF-10).
fn percent_decoded(mut rest: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        rest = tail;
        let mut byte = *first;
        if let ([high, low, after @ ..], b'%') = (tail, byte)
            && let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low))
        {
            byte = high * 16 + low;
            rest = after;
        }
        decoded.push(byte);
    }
    decoded
}

/// The value of a hexadecimal digit, and of nothing else: the integer parsers of the standard library accept
/// signs.
pub(super) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &[u8], path: &[u8]) {
        let shown = String::from_utf8_lossy(target);
        assert_eq!(Target::parse(target), Ok(Target { path: path.to_vec() }), "{shown}");
    }

    #[track_caller]
    fn check_refused(target: &[u8]) {
        let outcome = Target::parse(target);
        assert!(matches!(outcome, Err(Error::Malformed(_))), "{target:?}: {outcome:?}");
    }

    #[test]
    fn the_query_is_cut_before_the_path_is_decoded() {
        // HP-33
        check(b"/?probe=1", b"/");
        check(b"/exists/f?x=/../..", b"/exists/f");
        check(b"/exists/a%3Fb", b"/exists/a?b");
        check(b"/exists/a%23b#c", b"/exists/a#b");
        check(b"/a#b?c", b"/a");
        check(b"/a??b", b"/a");
    }

    #[test]
    fn a_path_is_decoded_once() {
        check(b"/a%2541", b"/a%41");
        check(b"/a%252Fb", b"/a%2Fb");
        check(b"/%252e%252e/x", b"/%2e%2e/x");
        check(b"/a%25", b"/a%");
        check(b"/a+b", b"/a+b");
    }

    #[test]
    fn an_encoded_slash_is_a_slash() {
        // CF-09, CF-11
        check(b"/download/d%2fx", b"/download/d/x");
        check(b"/download/d%2Fx", b"/download/d/x");
        check(b"/exists//etc/passwd", b"/exists//etc/passwd");
        check(b"/exists/%2fetc%2fpasswd", b"/exists//etc/passwd");
    }

    #[test]
    fn dot_segments_are_not_normalised() {
        check(b"/list/../..", b"/list/../..");
        check(b"/list/%2e%2e/./x", b"/list/.././x");
    }

    #[test]
    fn malformed_percent_sequences_stay_literally() {
        // CF-10, CF-08
        check(b"/exists/a%zzb", b"/exists/a%zzb");
        check(b"/exists/a%2", b"/exists/a%2");
        check(b"/exists/%", b"/exists/%");
        check(b"/exists/%%41", b"/exists/%A");
        check(b"/exists/%+5", b"/exists/%+5");
        check(b"/exists/%4%41", b"/exists/%4A");
        check(b"/exists/%ff", b"/exists/\xff");
        check(b"/download/f.txt%00.png", b"/download/f.txt\0.png");
    }

    #[test]
    fn the_absolute_form_is_its_path() {
        // HP-32
        check(b"http://other/list/", b"/list/");
        check(b"HTTPS://other:8888/list/a%20b?x=http://y/z", b"/list/a b");
        check(b"http://[::1]:8888/", b"/");
        check(b"http://other", b"/");
        check(b"http://other?x=/y", b"/");
        check(b"http://other#x", b"/");
        check(b"/http://other/x", b"/http://other/x");
    }

    #[test]
    fn raw_high_bytes_are_taken_as_they_are() {
        check(b"/exists/caf\xc3\xa9", b"/exists/caf\xc3\xa9");
        check(b"/exists/caf\xe9", b"/exists/caf\xe9");
    }

    #[test]
    fn other_forms_are_refused() {
        check_refused(b"");
        check_refused(b"*");
        check_refused(b"host:80");
        check_refused(b"list/");
        check_refused(b"?x=/");
        check_refused(b"ftp://other/list/");
        check_refused(b"http:/list/");
        check_refused(b"http://");
        check_refused(b"http:///list/");
        check_refused(b"http://user@other/list/");
        check_refused(b"http://a,b/list/");
        check_refused(b"/a b");
        check_refused(b"/a\tb");
        check_refused(b"/a\0b");
        check_refused(b"/a\x7fb");
    }
}
