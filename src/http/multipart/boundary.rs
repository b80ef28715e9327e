//! The boundary of a form and the delimiter lines that it makes (RFC 2046 section 5.1.1).

use crate::http::{Error, params};

/// One to seventy printable ASCII characters, the last of them not a space (RFC 2046 section 5.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary(Vec<u8>);

/// The boundary that a Content-Type names.
///
/// # Errors
/// [`Error::NotMultipart`], [`Error::NoBoundary`], or [`Error::Malformed`] for an invalid or duplicate
/// boundary.
pub fn boundary(content_type: &[u8]) -> Result<Boundary, Error> {
    const MAX_BYTES: usize = 70;
    if !params::essence(content_type).eq_ignore_ascii_case(b"multipart/form-data") {
        return Err(Error::NotMultipart);
    }
    let mut boundary = None;
    for param in params::parse(content_type)? {
        if param.name == b"boundary" && boundary.replace(param.content).is_some() {
            return Err(Error::Malformed("the content type names two multipart boundaries"));
        }
    }
    let boundary = boundary.filter(|boundary| !boundary.is_empty()).ok_or(Error::NoBoundary)?;
    let is_printable = boundary.iter().all(|byte| *byte == b' ' || byte.is_ascii_graphic());
    if boundary.len() > MAX_BYTES || boundary.ends_with(b" ") || !is_printable {
        return Err(Error::Malformed("the multipart boundary is invalid"));
    }
    Ok(Boundary(boundary))
}

/// `CRLF--boundary`. Its only CR is its first byte, so a failed match never hides the start of another one.
#[derive(Debug)]
pub(super) struct Delimiter(Vec<u8>);

/// Whether bytes that begin like a delimiter are a delimiter line.
pub(super) enum Match {
    Undecided,
    /// They are not, and the last byte is not part of them.
    No,
    /// The line before a part.
    Part,
    /// The closing delimiter. The text after it on its line is epilogue.
    Close,
}

impl Delimiter {
    pub(super) fn new(boundary: &Boundary) -> Self {
        Self([b"\r\n--", &boundary.0[..]].concat())
    }

    /// Splits at the first position where a delimiter begins or, at the end of `text`, may begin.
    pub(super) fn split<'a>(&self, text: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let mut searched = 0;
        while let Some(found) = text.get(searched..).and_then(find_line_end) {
            let (before, from) = text.split_at_checked(searched + found).unwrap_or((text, b""));
            if from.iter().zip(&self.0).all(|(byte, expected)| byte == expected) {
                return (before, from);
            }
            searched += found + 1;
        }
        (text, b"")
    }

    /// Classifies undecided bytes and one more byte. A boundary makes a delimiter line if `--`
    /// follows, or white space (RFC 2046 calls it padding) and CRLF.
    pub(super) fn extend(&self, held: &[u8], byte: u8) -> Result<Match, Error> {
        const PADDING_BYTES: usize = 256;
        let Some((_, tail)) = held.split_at_checked(self.0.len()) else {
            let is_expected = self.0.get(held.len()) == Some(&byte);
            return Ok(if is_expected { Match::Undecided } else { Match::No });
        };
        match (tail, byte) {
            ([b'-'], b'-') => Ok(Match::Close),
            ([.., b'\r'], b'\n') => Ok(Match::Part),
            ([b'-'] | [.., b'\r'], _) => Ok(Match::No),
            ([], b'-') => Ok(Match::Undecided),
            (_, b' ' | b'\t' | b'\r') if tail.len() < PADDING_BYTES => Ok(Match::Undecided),
            (_, b' ' | b'\t' | b'\r') => Err(Error::Malformed("a multipart boundary has too much padding")),
            _ => Ok(Match::No),
        }
    }
}

/// Where the first CRLF begins, or may begin at the end. It compares 32 bytes in one step, because this is
/// most of the cost of reading an upload.
fn find_line_end(text: &[u8]) -> Option<usize> {
    let is_line_end = |byte: &u8, next: &u8| (*byte == b'\r') & (*next == b'\n');
    let (blocks, _) = text.as_chunks::<32>();
    let (shifted, _) = text.get(1..)?.as_chunks::<32>();
    let has_none = |(block, shifted): &(&[u8; 32], &[u8; 32])| {
        !block.iter().zip(*shifted).fold(false, |found, (byte, next)| found | is_line_end(byte, next))
    };
    let without = blocks.iter().zip(shifted).take_while(has_none).count() * 32;
    let rest = text.get(without..)?;
    let nexts = rest.iter().skip(1).chain(b"\n");
    let found = rest.iter().zip(nexts).position(|(byte, next)| is_line_end(byte, next))?;
    Some(without + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_boundary_character_is_accepted() {
        // UP-22
        let text = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV'()+_,-./:=?";
        assert_eq!(text.len(), 70);
        for content_type in [
            format!("multipart/form-data; boundary={text}"),
            format!("multipart/form-data; boundary=\"{text}\""),
        ] {
            assert_eq!(boundary(content_type.as_bytes()), Ok(Boundary(text.into())));
        }
    }

    #[test]
    fn the_boundary_is_read_from_the_content_type() {
        // UP-22
        for content_type in [
            "multipart/form-data; boundary=BB",
            "multipart/form-data;boundary=\"BB\"",
            "multipart/form-data; charset=utf-8; boundary=BB",
            "multipart/form-data ; boundary=BB ; charset=utf-8",
            "MULTIPART/FORM-DATA; BOUNDARY=BB",
        ] {
            assert_eq!(boundary(content_type.as_bytes()), Ok(Boundary(b"BB".to_vec())), "{content_type}");
        }
        let spaced = boundary(b"multipart/form-data; boundary=\"a b\"");
        assert_eq!(spaced, Ok(Boundary(b"a b".to_vec())));
    }

    #[test]
    fn a_content_type_without_a_valid_boundary_is_refused() {
        // UP-19
        for content_type in [
            "multipart/form-data",
            "multipart/form-data; charset=utf-8",
            "multipart/form-data; boundary=\"\"",
        ] {
            assert_eq!(boundary(content_type.as_bytes()), Err(Error::NoBoundary), "{content_type}");
        }
        for content_type in
            ["", "application/json", "multipart/mixed; boundary=BB", "multipart/form-data boundary=BB"]
        {
            assert_eq!(boundary(content_type.as_bytes()), Err(Error::NotMultipart), "{content_type}");
        }
        let long = format!("boundary={}", "a".repeat(71));
        for params in [
            &long,
            "boundary=A; boundary=A",
            "boundary=\"A ",
            "boundary=\"A \"",
            "boundary=\u{e9}",
            "boundary",
        ] {
            let outcome = boundary(format!("multipart/form-data; {params}").as_bytes());
            assert!(matches!(outcome, Err(Error::Malformed(_))), "{params}: {outcome:?}");
        }
    }
}
