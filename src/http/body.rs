//! A request body: framed bytes in, data out, at most as much as the endpoint allows (RFC 9112 section 6).
//!
//! It finds the end of the body and leaves the bytes after it to the next request. It buffers nothing.

use super::chunked::{Chunked, split_at_most};
use super::head::Framing;
use super::{Error, Limits};

/// The decoder of one body.
#[derive(Debug)]
pub struct Body {
    coding: Coding,
}

#[derive(Debug)]
enum Coding {
    Length { left: u64 },
    Chunked(Chunked),
}

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// How many bytes of the input were used up, `data` included.
    pub consumed: usize,
    /// The last of the consumed bytes. Empty if they were all framing.
    pub data: &'a [u8],
}

impl Body {
    /// The body that the head announces.
    ///
    /// # Errors
    /// [`Error::BodyTooLarge`] if its length is announced and past the limit, before any of it is read.
    pub fn new(framing: Framing, limit_bytes: u64, limits: &Limits) -> Result<Self, Error> {
        let coding = match framing {
            Framing::None => Coding::Length { left: 0 },
            Framing::Length(length) if length > limit_bytes => {
                return Err(Error::BodyTooLarge { limit: limit_bytes });
            }
            Framing::Length(left) => Coding::Length { left },
            Framing::Chunked => Coding::Chunked(Chunked::new(limit_bytes, limits)),
        };
        Ok(Self { coding })
    }

    /// Whether the body has been read to its end. True from the start if there is none.
    pub fn is_done(&self) -> bool {
        match &self.coding {
            Coding::Length { left } => *left == 0,
            Coding::Chunked(chunked) => chunked.is_done(),
        }
    }

    /// Reads from the front of `input`, which may end anywhere. Call again with the bytes that were not
    /// consumed; if none was, more input is needed. Consumes nothing once the body is done.
    ///
    /// # Errors
    /// The chunked framing is malformed, or the body is larger than its limit.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<'a>, Error> {
        match &mut self.coding {
            Coding::Length { left } => {
                let (data, _) = split_at_most(input, *left);
                *left -= data.len() as u64;
                Ok(Decoded { consumed: data.len(), data })
            }
            Coding::Chunked(chunked) => {
                let (consumed, data) = chunked.decode(input)?;
                Ok(Decoded { consumed, data })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(
        framing: Framing,
        limit_bytes: u64,
        input: &[u8],
        step: usize,
    ) -> Result<(Vec<u8>, usize, bool), Error> {
        let mut body = Body::new(framing, limit_bytes, &Limits::default())?;
        let (mut data, mut consumed) = (Vec::new(), 0);
        for piece in input.chunks(step) {
            let mut piece = piece;
            loop {
                let decoded = body.decode(piece)?;
                data.extend_from_slice(decoded.data);
                consumed += decoded.consumed;
                piece = &piece[decoded.consumed..];
                if decoded.consumed == 0 {
                    break;
                }
            }
        }
        Ok((data, consumed, body.is_done()))
    }

    #[track_caller]
    fn check(framing: Framing, input: &[u8], data: &[u8], consumed: usize, done: bool) {
        for step in [input.len().max(1), 1] {
            assert_eq!(
                run(framing, 100, input, step),
                Ok((data.to_vec(), consumed, done)),
                "in steps of {step}"
            );
        }
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        // HP-25
        check(Framing::None, b"GET /", b"", 0, true);
        check(Framing::Length(0), b"GET /", b"", 0, true);
        check(Framing::Length(3), b"abcGET /", b"abc", 3, true);
        check(Framing::Length(3), b"ab", b"ab", 2, false);
        check(Framing::Chunked, b"0\r\n\r\nGET /", b"", 5, true);
        check(Framing::Chunked, b"3\r\nabc\r\n0\r\n\r\nGET /", b"abc", 13, true);
        check(Framing::Chunked, b"3\r\nabc\r\n0\r\n", b"abc", 11, false);
    }

    #[test]
    fn a_body_without_bytes_is_done_at_once() {
        for (framing, done) in [
            (Framing::None, true),
            (Framing::Length(0), true),
            (Framing::Length(1), false),
            (Framing::Chunked, false),
        ] {
            assert_eq!(Body::new(framing, 100, &Limits::default()).unwrap().is_done(), done, "{framing:?}");
        }
    }

    #[test]
    fn a_body_larger_than_the_limit_is_refused() {
        // HP-35, JS-13
        let too_large = Err(Error::BodyTooLarge { limit: 4 });
        assert_eq!(run(Framing::Length(5), 4, b"", 1), too_large);
        assert_eq!(run(Framing::Length(u64::MAX), 4, b"", 1), too_large);
        assert_eq!(run(Framing::Chunked, 4, b"5\r\n", 1), too_large);
        assert_eq!(run(Framing::Chunked, 4, b"3\r\nabc\r\n2\r\n", 1), too_large);
        assert_eq!(run(Framing::Length(4), 4, b"abcd", 1), Ok((b"abcd".to_vec(), 4, true)));
        assert_eq!(run(Framing::Chunked, 4, b"4\r\nabcd\r\n0\r\n\r\n", 1), Ok((b"abcd".to_vec(), 14, true)));
    }
}
