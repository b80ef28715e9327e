//! The chunked transfer coding, decoded at any split of the input (RFC 9112 section 7.1).
//!
//! It is strict where two parsers could disagree about the end of the body: a size is one to sixteen
//! hexadecimal digits and nothing else, every line ends in CRLF, and chunk data is exactly as long as
//! announced. Extensions and trailers are bounded, checked for valid bytes and line ends, and dropped;
//! trailers are never merged into the headers.

use super::target::hex_digit;
use super::{Error, Limits, is_token_byte, is_value_byte};

/// The decoder of one body. It buffers no bytes, it only knows its position.
#[derive(Debug)]
pub struct Chunked {
    position: Position,
    limit_bytes: u64,
    /// How much of `limit_bytes` later chunks may still announce.
    left_bytes: u64,
    extension_limit: usize,
    trailer_bytes_left: usize,
}

/// The element that the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum Position {
    Size {
        size: u64,
        digits: u8,
    },
    Extension {
        size: u64,
        bytes: usize,
    },
    SizeLf {
        size: u64,
    },
    /// `left` is never 0.
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Done,
}

const SIZE_START: Position = Position::Size { size: 0, digits: 0 };

/// As many as fit into a `u64`.
const SIZE_DIGITS: u8 = 16;

impl Chunked {
    /// A body whose chunks may hold `limit_bytes` in total.
    pub fn new(limit_bytes: u64, limits: &Limits) -> Self {
        Self {
            position: SIZE_START,
            limit_bytes,
            left_bytes: limit_bytes,
            extension_limit: limits.chunk_line_bytes,
            trailer_bytes_left: limits.trailer_bytes,
        }
    }

    /// Whether the body has been read to its end, trailers and last CRLF included.
    pub fn is_done(&self) -> bool {
        matches!(self.position, Position::Done)
    }

    /// Reads from the front of `input` up to the end of one run of data. Returns how many bytes were
    /// consumed, and the data, which is the last of them. Consumes nothing once the body is done.
    ///
    /// # Errors
    /// The framing is malformed, or a chunk goes past the limit.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<(usize, &'a [u8]), Error> {
        let mut rest = input;
        loop {
            if let Position::Data { left } = self.position {
                let (data, after) = split_at_most(rest, left);
                self.position = match left - data.len() as u64 {
                    0 => Position::DataCr,
                    left => Position::Data { left },
                };
                return Ok((input.len() - after.len(), data));
            }
            match rest.split_first() {
                Some((byte, after)) if !self.is_done() => {
                    self.position = self.after_framing_byte(*byte)?;
                    rest = after;
                }
                _ => return Ok((input.len() - rest.len(), b"")),
            }
        }
    }

    fn after_framing_byte(&mut self, byte: u8) -> Result<Position, Error> {
        Ok(match (self.position, byte) {
            (Position::Size { size, digits }, _) => self.after_size_byte(size, digits, byte)?,
            (Position::Extension { size, .. }, b'\r') => Position::SizeLf { size },
            (Position::Extension { size, bytes }, _) if is_value_byte(byte) => {
                if bytes == self.extension_limit {
                    return Err(Error::Malformed("a chunk extension is too long"));
                }
                Position::Extension { size, bytes: bytes + 1 }
            }
            (Position::SizeLf { size: 0 }, b'\n') => Position::TrailerStart,
            (Position::SizeLf { size }, b'\n') => {
                self.left_bytes = self.left_bytes.checked_sub(size).ok_or(self.too_large())?;
                Position::Data { left: size }
            }
            (Position::DataCr, b'\r') => Position::DataLf,
            (Position::DataCr, _) => return Err(Error::Malformed("chunk data is longer than its size")),
            (Position::DataLf, b'\n') => SIZE_START,
            (Position::TrailerStart, b'\r') => Position::LastLf,
            (Position::LastLf, b'\n') => Position::Done,
            (
                Position::TrailerStart | Position::TrailerName | Position::TrailerValue | Position::TrailerLf,
                _,
            ) => self.after_trailer_byte(byte)?,
            _ => {
                return Err(Error::Malformed(
                    "chunk framing has a control byte or a line end in the wrong place",
                ));
            }
        })
    }

    fn after_size_byte(&self, size: u64, digits: u8, byte: u8) -> Result<Position, Error> {
        match (hex_digit(byte), byte) {
            (Some(_), _) if digits == SIZE_DIGITS => Err(self.too_large()),
            (Some(digit), _) => Ok(Position::Size { size: size * 16 + u64::from(digit), digits: digits + 1 }),
            (None, b'\r') if digits > 0 => Ok(Position::SizeLf { size }),
            (None, b';') if digits > 0 => Ok(Position::Extension { size, bytes: 0 }),
            _ => Err(Error::Malformed("a chunk size is not a hexadecimal number")),
        }
    }

    fn after_trailer_byte(&mut self, byte: u8) -> Result<Position, Error> {
        self.trailer_bytes_left =
            self.trailer_bytes_left.checked_sub(1).ok_or(Error::Malformed("the trailers are too large"))?;
        match (self.position, byte) {
            (Position::TrailerStart | Position::TrailerName, _) if is_token_byte(byte) => {
                Ok(Position::TrailerName)
            }
            (Position::TrailerName, b':') => Ok(Position::TrailerValue),
            (Position::TrailerValue, b'\r') => Ok(Position::TrailerLf),
            (Position::TrailerValue, _) if is_value_byte(byte) => Ok(Position::TrailerValue),
            (Position::TrailerLf, b'\n') => Ok(Position::TrailerStart),
            _ => Err(Error::Malformed("a trailer is not a header line")),
        }
    }

    fn too_large(&self) -> Error {
        Error::BodyTooLarge { limit: self.limit_bytes }
    }
}

/// The first `max_bytes` of `input`, or all of it, and the remaining bytes.
pub(super) fn split_at_most(input: &[u8], max_bytes: u64) -> (&[u8], &[u8]) {
    usize::try_from(max_bytes).ok().and_then(|at| input.split_at_checked(at)).unwrap_or((input, b""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000;

    /// The decoded data, how many bytes of `input` were consumed, and whether the body is done, for `input`
    /// in pieces of `step` bytes.
    fn run(input: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), Error> {
        let limits = Limits { chunk_line_bytes: 8, trailer_bytes: 16, ..Limits::default() };
        let mut decoder = Chunked::new(LIMIT, &limits);
        let (mut data, mut total) = (Vec::new(), 0);
        for piece in input.chunks(step) {
            let mut piece = piece;
            loop {
                let (consumed, more) = decoder.decode(piece)?;
                data.extend_from_slice(more);
                total += consumed;
                piece = &piece[consumed..];
                if consumed == 0 {
                    break;
                }
            }
        }
        Ok((data, total, decoder.is_done()))
    }

    #[track_caller]
    fn check(input: &[u8], expected: Result<(&[u8], usize, bool), Error>) {
        let expected = expected.map(|(data, consumed, done)| (data.to_vec(), consumed, done));
        for step in [input.len().max(1), 1, 2, 3] {
            let shown = String::from_utf8_lossy(input);
            assert_eq!(run(input, step), expected, "{shown:?} in steps of {step}");
        }
    }

    #[track_caller]
    fn check_whole(input: &[u8], data: &[u8]) {
        check(input, Ok((data, input.len(), true)));
    }

    #[track_caller]
    fn check_refused(input: &[u8]) {
        for step in [input.len(), 1, 2, 3] {
            let outcome = run(input, step);
            assert!(matches!(outcome, Err(Error::Malformed(_))), "{:?}: {outcome:?}", input.escape_ascii());
        }
    }

    #[test]
    fn chunks_are_joined() {
        check_whole(b"0\r\n\r\n", b"");
        check_whole(b"000\r\n\r\n", b"");
        check_whole(b"5\r\nhello\r\n0\r\n\r\n", b"hello");
        check_whole(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde");
        check_whole(b"a\r\n0123456789\r\n0\r\n\r\n", b"0123456789");
        check_whole(b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789");
        check_whole(b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n");
        check_whole(b"0000000000000001\r\nx\r\n0\r\n\r\n", b"x");
    }

    #[test]
    fn bytes_after_the_last_line_are_left_alone() {
        // HP-10, HP-11
        let body = b"14;a=b\r\n{\"command\":\"echo x\"}\r\n0\r\nX-T: y\r\n\r\n";
        let wire = [&body[..], b"GET / HTTP/1.1\r\n"].concat();
        check(&wire, Ok((b"{\"command\":\"echo x\"}", body.len(), true)));
    }

    #[test]
    fn extensions_and_trailers_are_dropped() {
        check_whole(b"1;a=\"b\"\r\nx\r\n0;c\r\n\r\n", b"x");
        check_whole(b"1;\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\n", b"x");
        check_whole(b"0;12345678\r\n\r\n", b"");
        check_whole(b"0\r\nA: 34567890123\r\n\r\n", b"");
    }

    #[test]
    fn an_unfinished_body_is_not_done() {
        for body in ["", "5", "5\r\nhel", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "0\r\nA: b\r\n", "0\r\n\r"]
        {
            let (_, consumed, done) = run(body.as_bytes(), body.len().max(1)).unwrap();
            assert_eq!((consumed, done), (body.len(), false), "{body:?}");
        }
    }

    #[test]
    fn a_chunk_size_that_is_not_plain_digits_is_refused() {
        // HP-06
        check_refused(b"\r\n\r\n");
        check_refused(b"5\r\nhello\r\n\r\n\r\n");
        for size in
            ["-14", "+14", "0x14", "1_4", "14 ", " 14", "14junk", "zz", "", "\t14", "14\t;a", ";a", "1 4"]
        {
            check_refused(format!("{size}\r\n{{\"command\":\"echo x\"}}\r\n0\r\n\r\n").as_bytes());
        }
    }

    #[test]
    fn a_body_past_its_limit_is_refused_before_its_data() {
        // HP-06: no wrap-around
        for body in ["10000000000000014\r\n", "FFFFFFFFFFFFFFFF\r\n", "00000000000000001\r\n", "3e9\r\n"] {
            check(body.as_bytes(), Err(Error::BodyTooLarge { limit: LIMIT }));
        }
        check(b"1\r\nx\r\nffffffffffffffff\r\n", Err(Error::BodyTooLarge { limit: LIMIT }));
        check(b"1\r\nx\r\n3e8\r\n", Err(Error::BodyTooLarge { limit: LIMIT }));
        check_whole(&[b"3e8\r\n", &[b'x'; 1000][..], b"\r\n0\r\n\r\n"].concat(), &[b'x'; 1000]);
    }

    #[test]
    fn chunk_data_longer_than_its_size_is_refused() {
        // HP-08
        check_refused(b"5\r\nAAAAAXXX\r\n0\r\n\r\n");
        check_refused(b"5\r\nAAAAA0\r\n\r\n");
        check_refused(b"5\r\nAAAAA\n0\r\n\r\n");
        check_refused(b"5\r\nAAAAA\rX0\r\n\r\n");
    }

    #[test]
    fn bare_line_ends_are_refused_everywhere_in_the_framing() {
        check_refused(b"5\nhello\r\n0\r\n\r\n");
        check_refused(b"5\rhello\r\n0\r\n\r\n");
        check_refused(b"5;a\nhello\r\n0\r\n\r\n");
        check_refused(b"5;a\rb\r\nhello\r\n0\r\n\r\n");
        check_refused(b"5\r\nhello\r\n0\n\r\n");
        check_refused(b"5\r\nhello\r\n0\r\n\n");
        check_refused(b"5\r\nhello\r\n0\r\n\rX");
        check_refused(b"0\r\nA: b\n\r\n");
        check_refused(b"0\r\nA: b\rc\r\n\r\n");
        check_refused(b"5;\0\r\nhello\r\n0\r\n\r\n");
    }

    #[test]
    fn malformed_trailers_are_refused() {
        for trailer in ["garbage", ": b", " A: b", "A : b", "A\0: b", "A: b\0", "\u{e9}: b", "A: b\r\n c"] {
            check_refused(format!("0\r\n{trailer}\r\n\r\n").as_bytes());
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        check_refused(b"1;123456789\r\nx\r\n0\r\n\r\n");
        check_refused(b"0\r\nA: 9012345678901\r\n\r\n");
        check_refused(b"0\r\nA: 9012\r\nB: 5678901\r\n\r\n");
    }
}
