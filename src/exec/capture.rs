//! What is kept of an output stream: its first part, its last part, and how many bytes lie between.
//!
//! Memory never exceeds the limit, however much is written; and of a first part that is [told](Capture::tellable) while it
//! arrives, only what is not told yet is kept. Nothing is cut inside a UTF-8 character. Pure but for [`Capture::read`],
//! which makes one read(2) straight into the kept part.

use crate::sys::poll::{read, read_append};
use std::io;
use std::os::fd::BorrowedFd;

/// One read(2) at most.
const READ_BYTES: usize = 64 << 10;
/// The first read(2): most commands say little, and memory that is not asked for need not be given back.
const FIRST_READ_BYTES: usize = 2 << 10;

/// How much is not told before the end: something to say, one character at a time, when the client must be heard from.
const HELD_BYTES: usize = 8;

/// A stream as it arrives.
#[derive(Debug)]
pub(super) struct Capture {
    /// How many bytes the first part may have, and the last part too.
    half_bytes: usize,
    /// How much more of the first part there may be.
    first_room: usize,
    first: Vec<u8>,
    /// Appended to until it is full, then a ring.
    last: Vec<u8>,
    /// Where the ring's oldest byte is, which is where the next one goes.
    oldest: usize,
    left_out: u64,
}

/// A stream as it was, when it has ended or nobody reads it any more; less what was told before.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured {
    pub first: Vec<u8>,
    /// How many bytes lie between the parts; 0 when nothing was left out.
    pub left_out: u64,
    pub last: Vec<u8>,
}

impl Capture {
    /// `None`: no limit, which is for a stream that is told while it arrives.
    pub(super) fn new(limit_bytes: Option<usize>) -> Self {
        let half_bytes = limit_bytes.map_or(usize::MAX, |limit| (limit / 2).max(1));
        let (first, last) = (Vec::new(), Vec::new());
        Self { half_bytes, first_room: half_bytes, first, last, oldest: 0, left_out: 0 }
    }

    /// Reads once; 0 at end-of-file.
    pub(super) fn read(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<usize> {
        if self.first_room > 0 {
            let so_far = self.half_bytes - self.first_room;
            let wanted = so_far.clamp(FIRST_READ_BYTES, READ_BYTES);
            let count = read_append(descriptor, &mut self.first, self.first_room.min(wanted))?;
            self.first_room -= count;
            return Ok(count);
        }
        let room = self.half_bytes - self.last.len();
        if room > 0 {
            let wanted = self.last.len().clamp(FIRST_READ_BYTES, READ_BYTES);
            return read_append(descriptor, &mut self.last, room.min(wanted));
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

    /// How many bytes of the first part have not been told.
    pub(super) fn untold(&self) -> usize {
        self.first.len()
    }

    /// Whether what comes next still belongs to the first part.
    pub(super) fn is_in_first(&self) -> bool {
        self.first_room > 0
    }

    /// What can be told of the first part already. It can be decoded by itself: it neither begins nor ends inside a
    /// character.
    pub(super) fn tellable(&self) -> &[u8] {
        let (ready, _) = self.first.split_at(self.first.len().saturating_sub(HELD_BYTES));
        without_open_end(ready)
    }

    /// One character of what is held back, or as many bytes as are none.
    pub(super) fn next_held(&self) -> &[u8] {
        let first = &self.first;
        let is_closed = |count: &usize| without_open_end(first.split_at(*count).0).len() == *count;
        let count = (1..=first.len().min(LONGEST_CHARACTER)).find(is_closed);
        first.split_at(count.unwrap_or(0)).0
    }

    /// Takes away so many bytes, which have been told.
    pub(super) fn told(&mut self, count: usize) {
        self.first.drain(..count);
    }

    pub(super) fn finish(self) -> Captured {
        let Self { mut first, mut last, oldest, mut left_out, .. } = self;
        if left_out == 0 {
            first.append(&mut last);
        } else {
            last.rotate_left(oldest);
            let whole = without_open_end(&first).len();
            left_out += (first.len() - whole) as u64 + cut_start(&mut last);
            first.truncate(whole);
        }
        Captured { first, left_out, last }
    }
}

const LONGEST_CHARACTER: usize = 4;

/// All but a character at the end that has begun and not ended.
fn without_open_end(bytes: &[u8]) -> &[u8] {
    let is_open = |count: &usize| {
        let end = bytes.split_at(bytes.len() - count).1;
        std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    let open = (1..LONGEST_CHARACTER.min(bytes.len() + 1)).find(is_open);
    bytes.split_at(bytes.len() - open.unwrap_or(0)).0
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
        let mut capture = Capture::new(Some(limit));
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
