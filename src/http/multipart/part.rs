//! The head of one part: the field name and the file name in its Content-Disposition (RFC 7578 section 4.2).

use crate::http::{Error, is_token_byte, is_value_byte, params};

/// The names in a part's Content-Disposition. They are bytes, not always UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    pub name: Option<Vec<u8>>,
    pub filename: Option<Vec<u8>>,
}

/// Reads the header lines of a part, blank line included. All but Content-Disposition are checked and
/// dropped.
pub(super) fn parse(head: &[u8]) -> Result<PartHead, Error> {
    let mut disposition = None;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let line =
            line.strip_suffix(b"\r\n").ok_or(Error::Malformed("a part's header ends in a bare line feed"))?;
        if line.is_empty() {
            continue;
        }
        let (name, value) = header(line)?;
        if name.eq_ignore_ascii_case(b"content-disposition") && disposition.replace(value).is_some() {
            return Err(Error::Malformed("a part has two Content-Disposition headers"));
        }
    }
    disposition.map_or(Ok(PartHead::default()), names)
}

fn header(line: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let mut halves = line.splitn(2, |byte| *byte == b':');
    let (Some(name), Some(value)) = (halves.next(), halves.next()) else {
        return Err(Error::Malformed("a part's header has no colon"));
    };
    if name.is_empty() || !name.iter().all(|byte| is_token_byte(*byte)) {
        return Err(Error::Malformed("a part's header has no valid name"));
    }
    if !value.iter().all(|byte| is_value_byte(*byte)) {
        return Err(Error::Malformed("a part's header has a control byte in it"));
    }
    Ok((name, value))
}

/// The two names in a Content-Disposition.
fn names(disposition: &[u8]) -> Result<PartHead, Error> {
    if !params::essence(disposition).eq_ignore_ascii_case(b"form-data") {
        return Err(Error::Malformed("a part is not form data"));
    }
    let mut head = PartHead::default();
    for param in params::parse(disposition)? {
        let slot = match param.name.as_slice() {
            b"name" => &mut head.name,
            b"filename" => &mut head.filename,
            _ => continue,
        };
        if slot.replace(unescaped(&param.content)).is_some() {
            return Err(Error::Malformed("a part has two names of one kind"));
        }
    }
    Ok(head)
}

/// Decodes the escapes that the HTML standard defines for a quote, CR and LF in a name. Clients escape
/// nothing else, not even `%` itself, so no other sequence is decoded.
fn unescaped(mut rest: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(rest.len());
    loop {
        let (byte, after) = match rest {
            [b'%', b'2', b'2', after @ ..] => (b'"', after),
            [b'%', b'0', b'D' | b'd', after @ ..] => (b'\r', after),
            [b'%', b'0', b'A' | b'a', after @ ..] => (b'\n', after),
            [byte, after @ ..] => (*byte, after),
            [] => return name,
        };
        name.push(byte);
        rest = after;
    }
}
