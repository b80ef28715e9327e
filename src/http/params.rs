//! A header value with parameters: `form-data; name="file"; filename="a b.txt"` (RFC 9110 section 5.6.6).
//!
//! For Content-Type and Content-Disposition. Names are returned in lower case and in order, quoted strings
//! without their quotes. Percent escapes and `name*` encodings are left to the caller.

use super::{Error, is_token_byte};

/// One parameter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Param {
    pub(super) name: Vec<u8>,
    pub(super) content: Vec<u8>,
}

/// The value before its first parameter, trimmed.
pub(super) fn essence(value: &[u8]) -> &[u8] {
    until_semicolon(value).0
}

/// The parameters of a value.
///
/// # Errors
/// A parameter is malformed.
pub(super) fn parse(value: &[u8]) -> Result<Vec<Param>, Error> {
    let mut params = Vec::new();
    let (_, mut rest) = until_semicolon(value);
    while let Some(after) = rest.strip_prefix(b";") {
        rest = after.trim_ascii_start();
        // RFC 9110 allows empty parameters; clients send a semicolon at the end.
        if rest.is_empty() || rest.starts_with(b";") {
            continue;
        }
        let (name, after) = name(rest)?;
        let (content, after) = match after.strip_prefix(b"\"") {
            Some(quoted) => unquoted(quoted)?,
            None => bare(after)?,
        };
        params.push(Param { name, content });
        rest = after.trim_ascii_start();
    }
    if rest.is_empty() { Ok(params) } else { Err(Error::Malformed("text follows a quoted header parameter")) }
}

fn until_semicolon(value: &[u8]) -> (&[u8], &[u8]) {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    let (before, from) = value.split_at_checked(end).unwrap_or((value, b""));
    (before.trim_ascii(), from)
}

fn name(rest: &[u8]) -> Result<(Vec<u8>, &[u8]), Error> {
    let (name, after) = rest
        .iter()
        .position(|byte| *byte == b'=')
        .and_then(|end| rest.split_at_checked(end))
        .ok_or(Error::Malformed("a header parameter has no value"))?;
    if name.is_empty() || !name.iter().all(|byte| is_token_byte(*byte)) {
        return Err(Error::Malformed("a header parameter has no valid name"));
    }
    Ok((name.to_ascii_lowercase(), after.strip_prefix(b"=").unwrap_or(after)))
}

/// Anything up to the next semicolon: more than a token, because clients send boundaries with `/` or `=`
/// unquoted.
fn bare(rest: &[u8]) -> Result<(Vec<u8>, &[u8]), Error> {
    let (content, after) = until_semicolon(rest);
    if content.contains(&b'"') {
        return Err(Error::Malformed("a header parameter has a quote inside its value"));
    }
    Ok((content.to_vec(), after))
}

/// A quoted string after its opening quote.
///
/// Only `\"` and `\\` are escapes. Browsers send the backslashes of a file name unescaped, so before any
/// other character a backslash is itself.
fn unquoted(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), Error> {
    let mut content = Vec::new();
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Ok((content, after)),
            [b'\\', byte @ (b'"' | b'\\'), after @ ..] | [byte, after @ ..] => {
                content.push(*byte);
                after
            }
            [] => return Err(Error::Malformed("a quoted header parameter has no closing quote")),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: &[(&str, &str)]) {
        let param =
            |(n, c): &(&str, &str)| Param { name: n.as_bytes().to_vec(), content: c.as_bytes().to_vec() };
        let expected: Vec<_> = expected.iter().map(param).collect();
        assert_eq!(parse(value.as_bytes()), Ok(expected), "{value}");
    }

    #[track_caller]
    fn check_refused(value: &str) {
        let outcome = parse(value.as_bytes());
        assert!(matches!(outcome, Err(Error::Malformed(_))), "{value}: {outcome:?}");
    }

    #[test]
    fn parameters_keep_their_order_and_lose_their_case() {
        check("form-data", &[]);
        check("form-data;", &[]);
        check("form-data; ;; ", &[]);
        check("a/b; X=1;y=2 ; Z = 3".replace(" = ", "=").as_str(), &[("x", "1"), ("y", "2"), ("z", "3")]);
        check("a; b=\"c;d\"; e=f", &[("b", "c;d"), ("e", "f")]);
        check("a; b=x/y=z?; c=", &[("b", "x/y=z?"), ("c", "")]);
        check("a; b=\"\"", &[("b", "")]);
    }

    #[test]
    fn only_quote_and_backslash_are_escaped_in_quotes() {
        check(r#"a; b="q\"q""#, &[("b", "q\"q")]);
        check(r#"a; b="s\\s""#, &[("b", r"s\s")]);
        check(r#"a; b="back\slash.txt""#, &[("b", r"back\slash.txt")]);
        check(r#"a; b="\\"; c=d"#, &[("b", r"\"), ("c", "d")]);
    }

    #[test]
    fn malformed_parameters_are_refused() {
        check_refused("a; b");
        check_refused("a; =c");
        check_refused("a; b c=d");
        check_refused("a; b =c");
        check_refused("a; b=\"c");
        check_refused("a; b=\"c\\\"");
        check_refused("a; b=\"c\"d");
        check_refused("a; b=\"c\" d=e");
        check_refused("a; b=c\"d\"");
    }

    #[test]
    fn the_essence_ends_at_the_first_parameter() {
        assert_eq!(essence(b" text/plain ; a=b"), b"text/plain");
        assert_eq!(essence(b"text/plain"), b"text/plain");
        assert_eq!(essence(b""), b"");
    }
}
