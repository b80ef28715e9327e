//! What is kept of an output stream: its first part, its last part, and how many bytes lie between.
//!
//! Memory never exceeds the limit, however much is written. Nothing is cut inside a UTF-8 character. Pure but for
//! [`Capture::read`], which makes one read(2) straight into the kept part.

use crate::sys::poll::{read, read_append};
use std::io;
use std::os::fd::BorrowedFd;

/// One read(2) at most; a pipe holds as much.
const READ_BYTES: usize = 64 << 10;
/// The first read(2): most commands say little, and memory that is not asked for need not be given back.
const FIRST_READ_BYTES: usize = 2 << 10;

/// A stream as it arrives.
#[derive(Debug)]
pub(super) struct Capture {
    /// How many bytes the first part may have, and the last part too.
    half_bytes: usize,
    first: Vec<u8>,
    /// Appended to until it is full, then a ring.
    last: Vec<u8>,
    /// Where the ring's oldest byte is, which is where the next one goes.
    oldest: usize,
    left_out: u64,
}

/// A stream as it was, when it has ended or nobody reads it any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured {
    pub first: Vec<u8>,
    /// How many bytes lie between the parts; 0 when nothing was left out.
    pub left_out: u64,
    pub last: Vec<u8>,
}

impl Capture {
    pub(super) fn new(limit_bytes: usize) -> Self {
        let half_bytes = (limit_bytes / 2).max(1);
        Self { half_bytes, first: Vec::new(), last: Vec::new(), oldest: 0, left_out: 0 }
    }

    /// Reads once; 0 at end-of-file.
    pub(super) fn read(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<usize> {
        for part in [&mut self.first, &mut self.last] {
            let room = self.half_bytes - part.len();
            if room > 0 {
                let wanted = part.len().clamp(FIRST_READ_BYTES, READ_BYTES);
                return read_append(descriptor, part, room.min(wanted));
            }
        }
        let (_, ring) = self.last.split_at_mut(self.oldest);
        let room = ring.len().min(READ_BYTES);
        let count = read(descriptor, ring.get_mut(..room).unwrap_or_default())?;
        self.oldest = (self.oldest + count) % self.half_bytes;
        self.left_out += count as u64;
        Ok(count)
    }

    /// How many bytes have been read and not kept.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(super) fn finish(self) -> Captured {
        let Self { mut first, mut last, oldest, mut left_out, .. } = self;
        if left_out == 0 {
            first.append(&mut last);
        } else {
            last.rotate_left(oldest);
            left_out += cut_end(&mut first) + cut_start(&mut last);
        }
        Captured { first, left_out, last }
    }
}

/// Takes away a character that has begun and not ended; returns its bytes.
fn cut_end(bytes: &mut Vec<u8>) -> u64 {
    let open = (1..=3.min(bytes.len())).find(|count| {
        let end = bytes.split_at(bytes.len() - count).1;
        std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    });
    let count = open.unwrap_or(0);
    bytes.truncate(bytes.len() - count);
    count as u64
}

/// Takes away continuation bytes whose character has begun before; returns how many.
fn cut_start(bytes: &mut Vec<u8>) -> u64 {
    let count = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    bytes.drain(..count);
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll::pipe;
    use std::io::Write;
    use std::os::fd::AsFd;

    /// Passes the text through a pipe in pieces of this many bytes.
    fn capture(limit: usize, text: &[u8], piece_bytes: usize) -> Captured {
        let (source, sink) = pipe().unwrap();
        let mut sink = std::fs::File::from(sink);
        let mut capture = Capture::new(limit);
        for piece in text.chunks(piece_bytes) {
            sink.write_all(piece).unwrap();
            let mut left = piece.len();
            while left > 0 {
                left -= capture.read(source.as_fd()).unwrap();
            }
        }
        drop(sink);
        assert_eq!(capture.read(source.as_fd()).unwrap(), 0);
        capture.finish()
    }

    #[track_caller]
    fn check(limit: usize, text: &str, first: &str, left_out: u64, last: &str) {
        for piece_bytes in 1..=text.len() {
            let captured = capture(limit, text.as_bytes(), piece_bytes);
            assert_eq!(
                captured,
                Captured { first: first.into(), left_out, last: last.into() },
                "{piece_bytes}"
            );
        }
    }

    #[test]
    fn up_to_the_limit_everything_is_kept_in_order() {
        check(8, "abc", "abc", 0, "");
        check(8, "abcdefgh", "abcdefgh", 0, "");
    }

    #[test]
    fn past_the_limit_the_middle_is_left_out() {
        check(8, "abcdefghi", "abcd", 1, "fghi");
        check(8, "abcdefghijklmnopqrstuvwxyz", "abcd", 18, "wxyz");
        check(2, "abcdef", "a", 4, "f");
    }

    #[test]
    fn no_character_is_cut() {
        check(6, "aé€abcé€", "aé", 8, "€"); // OU-08: 3 bytes each
        check(10, "éééééééé", "éé", 8, "éé"); // 5 bytes each: half a character more
        check(8, "€€€€€€", "€", 12, "€");
        check(10, "😀😀😀😀😀", "😀", 12, "😀");
    }

    #[test]
    fn invalid_bytes_are_kept_as_they_are() {
        let captured = capture(8, b"\xff\xff\xff\xff....\xff\xff\xff\xff", 12);
        assert_eq!((captured.left_out, captured.last.as_slice()), (4, &b"\xff\xff\xff\xff"[..]));
    }
}
