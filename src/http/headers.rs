//! The header fields of a request: one list, in the order of their first appearance (RFC 9110 section 5).
//!
//! Names are kept in lower case. The list is one block of bytes, so it costs one allocation however many
//! fields there are. How a duplicate is handled is one row of [`DUPLICATES`]. A handler that reads a header
//! without a row needs no change here: the first value counts.

use super::{Error, is_value_byte};
use std::fmt;

/// The fields, each `name:value\n`. A name is a token and a value has no control bytes, so neither separator
/// is ambiguous.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    lines: Vec<u8>,
}

/// How a duplicate field is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duplicate {
    /// The request is refused for this reason, even if the values agree.
    Once(&'static str),
    /// The first value counts.
    First,
    /// The values become one, separated by commas (RFC 9110 section 5.3).
    Joined,
}

/// One row for each header that the server reads. A header with two readings could be understood differently
/// by a proxy and is accepted once; a second condition costs the client a full response at worst.
const DUPLICATES: [(&str, Duplicate); 12] = [
    ("host", Duplicate::Once("there are two Host headers")),
    ("content-length", Duplicate::Once("there are two Content-Length headers")),
    ("transfer-encoding", Duplicate::Once("there are two Transfer-Encoding headers")),
    ("content-type", Duplicate::Once("there are two Content-Type headers")),
    ("range", Duplicate::Once("there are two Range headers")),
    ("authorization", Duplicate::Once("there are two Authorization headers")),
    ("x-api-key", Duplicate::Once("there are two X-API-Key headers")),
    ("if-range", Duplicate::First),
    ("if-none-match", Duplicate::First),
    ("if-modified-since", Duplicate::First),
    ("expect", Duplicate::First),
    ("connection", Duplicate::Joined),
];

impl Headers {
    /// The value of a field: the only one, the first, or all of them joined. `name` is in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Every value of a field, in order. `name` is in lower case.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(move |(own_name, _)| *own_name == name.as_bytes()).map(|(_, value)| value)
    }

    /// The fields as names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let lines = self.lines.split_inclusive(|byte| *byte == b'\n');
        lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.strip_suffix(b"\n")?.split_at_checked(colon)?;
            Some((name, value.strip_prefix(b":")?))
        })
    }

    /// An empty list with room for the fields of a head of this size.
    pub(super) fn with_capacity(head_bytes: usize) -> Self {
        Self { lines: Vec::with_capacity(head_bytes) }
    }

    /// Adds a field, as its row in the table says. `name` must be a token.
    pub(super) fn push(&mut self, name: &str, value: &[u8]) -> Result<(), Error> {
        debug_assert!(!name.contains([':', '\n']), "a name is a token: {name:?}");
        if !value.iter().all(|byte| is_value_byte(*byte)) {
            return Err(Error::Malformed("a header's value is malformed"));
        }
        let row = DUPLICATES.iter().find(|(own_name, _)| own_name.eq_ignore_ascii_case(name));
        match row {
            Some((name, Duplicate::Once(reason))) if self.get(name).is_some() => {
                return Err(Error::Malformed(reason));
            }
            Some((name, Duplicate::Joined)) if self.join(name, value) => return Ok(()),
            _ => {}
        }
        let start = self.lines.len();
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
        self.lines.push(b':');
        self.lines.extend_from_slice(value);
        self.lines.push(b'\n');
        Ok(())
    }

    /// Extends an earlier field of this name, if there is one.
    fn join(&mut self, name: &str, value: &[u8]) -> bool {
        let mut end = 0;
        for line in self.lines.split_inclusive(|byte| *byte == b'\n') {
            end += line.len();
            if line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b":")) {
                let at = end - b"\n".len();
                self.lines.splice(at..at, [b", ", value].concat());
                return true;
            }
        }
        false
    }
}

impl fmt::Debug for Headers {
    /// Without the values, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| String::from_utf8_lossy(name))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Result<Headers, Error> {
        let mut headers = Headers::default();
        fields.iter().try_for_each(|(name, value)| headers.push(name, value.as_bytes()))?;
        Ok(headers)
    }

    fn shown(headers: &Headers) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        headers.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn fields_keep_their_order_and_lose_their_case() {
        let headers = headers(&[("X-B", "1:2"), ("a", ""), ("X-b", "3")]).unwrap();
        let expected = [("x-b", "1:2"), ("a", ""), ("x-b", "3")];
        assert_eq!(shown(&headers), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn the_first_value_of_an_unknown_field_counts() {
        let headers = headers(&[("X-B", "1"), ("x", "y"), ("x-b", "2")]).unwrap();
        assert_eq!(headers.get("x-b"), Some(&b"1"[..]));
        assert_eq!(headers.all("x-b").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(headers.get("x-"), None);
        assert_eq!(headers.get("b"), None);
    }

    #[test]
    fn every_row_of_the_table_holds() {
        for (name, duplicate) in DUPLICATES {
            let twice = headers(&[(name, "1"), ("x", "y"), (&name.to_uppercase(), "2")]);
            let expected = match duplicate {
                Duplicate::Once(reason) => Err(Error::Malformed(reason)),
                Duplicate::First => Ok(Some(b"1".to_vec())),
                Duplicate::Joined => Ok(Some(b"1, 2".to_vec())),
            };
            assert_eq!(twice.map(|headers| headers.get(name).map(<[u8]>::to_vec)), expected, "{name}");
        }
    }

    #[test]
    fn joining_leaves_the_other_fields_alone() {
        let headers = headers(&[("connection", ""), ("connection-x", "1"), ("Connection", "a")]).unwrap();
        let expected = [("connection", ", a"), ("connection-x", "1")];
        assert_eq!(shown(&headers), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_value_cannot_end_its_line() {
        for value in ["a\nhost:b", "a\r", "a\0"] {
            assert!(matches!(headers(&[("x", value)]), Err(Error::Malformed(_))), "{value:?}");
        }
        assert_eq!(headers(&[("x", "a\tb")]).unwrap().get("x"), Some(&b"a\tb"[..]));
    }

    #[test]
    fn values_are_not_shown() {
        let headers = headers(&[("Authorization", "Bearer secret")]).unwrap();
        assert_eq!(format!("{headers:?}"), r#"["authorization"]"#);
    }
}
