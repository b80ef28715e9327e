//! A request target: the path, decoded, and the query (RFC 9112 section 3.2, RFC 3986).
//!
//! The fragment and the query are cut off first and the path is percent-decoded exactly once after that, so
//! `%3F` is a question mark in a name and `%2541` is `%41`. Dot segments, repeated slashes and NUL bytes are
//! kept: the code that opens files decides what they mean.

use super::Error;

/// The resource that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Begins with `/`. Any bytes may follow.
    pub path: Vec<u8>,
    pub query: Query,
}

/// The query of a target, as it was sent: `name=value` pairs, decoded when they are looked up. It is as long
/// as the target at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    raw: Vec<u8>,
}

impl Query {
    /// The first value of this name, decoded; empty if the pair has no `=`.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.iter().find(|(own_name, _)| own_name == name.as_bytes()).map(|(_, value)| value)
    }

    /// The pairs in order, names and values decoded as in an HTML form: `+` is a space, and an escape is
    /// decoded once.
    pub fn iter(&self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.raw.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let [name, value] = [halves.next(), halves.next()].map(Option::unwrap_or_default);
            (percent_decoded(name, Plus::Space), percent_decoded(value, Plus::Space))
        })
    }
}

impl Target {
    /// Reads the origin form (`/path?query`) or the absolute form (`http://host/path?query`).
    ///
    /// # Errors
    /// It is another form, or has a space or a control byte in it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.iter().any(|byte| *byte == b' ' || byte.is_ascii_control()) {
            return Err(Error::Malformed("the request target has a space or a control byte in it"));
        }
        let origin = match bytes {
            [b'/', ..] => bytes,
            _ => after_authority(bytes)?,
        };
        let address = origin.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut halves = address.splitn(2, |byte| *byte == b'?');
        let [path, query] = [halves.next(), halves.next()].map(Option::unwrap_or_default);
        // Only an absolute form can have an empty path: `http://host?query`.
        let path = if path.is_empty() { b"/".to_vec() } else { percent_decoded(path, Plus::Itself) };
        Ok(Self { path, query: Query { raw: query.to_vec() } })
    }
}

/// The bytes after `http://host` in the absolute form. The other forms, `*` and `host:port`, are refused.
fn after_authority(bytes: &[u8]) -> Result<&[u8], Error> {
    let rest = strip_scheme(bytes, b"http://")
        .or_else(|| strip_scheme(bytes, b"https://"))
        .ok_or(Error::Malformed("the request target is neither a path nor an http address"))?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    match rest.split_at_checked(end) {
        Some((host, after)) if !host.is_empty() && is_host(host) => Ok(after),
        _ => Err(Error::Malformed("the request target has no valid host")),
    }
}

fn strip_scheme<'a>(bytes: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = bytes.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Whether these bytes can be a host and a port. The comma that RFC 3986 allows in a name is excluded: two
/// Host headers that a proxy has joined look like that. So is `@`: user information is not for servers.
pub(super) fn is_host(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(byte))
}

/// The meaning of a `+`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    Itself,
    Space,
}

/// Each `%` with two hexadecimal digits after it becomes one byte; any other `%` is itself (CF-10).
fn percent_decoded(mut rest: &[u8], plus: Plus) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        rest = tail;
        let mut byte = *first;
        if let ([high, low, after @ ..], b'%') = (tail, byte)
            && let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low))
        {
            byte = high * 16 + low;
            rest = after;
        } else if byte == b'+' && plus == Plus::Space {
            byte = b' ';
        }
        decoded.push(byte);
    }
    decoded
}

/// The value of a hexadecimal digit. The integer parsers of the standard library also accept signs.
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
        assert_eq!(Target::parse(target).map(|target| target.path), Ok(path.to_vec()), "{shown}");
    }

    #[track_caller]
    fn check_query(target: &str, expected: &[(&str, &str)]) {
        let query = Target::parse(target.as_bytes()).unwrap().query;
        let bytes = |text: &str| text.as_bytes().to_vec();
        let expected: Vec<_> = expected.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
        assert_eq!(query.iter().collect::<Vec<_>>(), expected, "{target}");
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
    fn a_query_is_a_list_of_pairs() {
        check_query("/", &[]);
        check_query("/?", &[]);
        check_query("/?a=1&b=2", &[("a", "1"), ("b", "2")]);
        check_query("/?&&a=1&", &[("a", "1")]);
        check_query("/?a&b=&=c&=", &[("a", ""), ("b", ""), ("", "c"), ("", "")]);
        check_query("/?a=b=c", &[("a", "b=c")]);
        check_query("/?a?b=/../c?d", &[("a?b", "/../c?d")]);
        check_query("/?a=b#c&d=e", &[("a", "b")]);
        check_query("/#a?b=c", &[]);
        check_query("http://x?a=b", &[("a", "b")]);
        check_query("/a%3Fb=c", &[]);
    }

    #[test]
    fn names_and_values_are_decoded_once() {
        check_query("/?a+b=c+d%2B", &[("a b", "c d+")]);
        check_query("/?%61=%2541&b%3Dc=%26", &[("a", "%41"), ("b=c", "&")]);
        check_query("/?a%zz=%2&b=%&c=%+5&d=%%41", &[("a%zz", "%2"), ("b", "%"), ("c", "% 5"), ("d", "%A")]);
        let query = Target::parse(b"/?a=%ff%00%0a").unwrap().query;
        assert_eq!(query.get("a"), Some(b"\xff\0\n".to_vec()));
    }

    #[test]
    fn the_first_value_of_a_name_counts() {
        let query = Target::parse(b"/?mode=1&mo%64e=2&Mode=3&empty").unwrap().query;
        assert_eq!(query.get("mode"), Some(b"1".to_vec()));
        assert_eq!(query.get("Mode"), Some(b"3".to_vec()));
        assert_eq!(query.get("empty"), Some(Vec::new()));
        assert_eq!(query.get("missing"), None);
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
    fn malformed_escapes_stay() {
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
    fn raw_high_bytes_are_unchanged() {
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
