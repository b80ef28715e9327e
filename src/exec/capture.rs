//! A bounded copy of an output stream: its head, its tail, and the number of bytes omitted between them.
//!
//! Memory never exceeds the limit, however much is written. Bytes of the head that have been
//! [streamed](Capture::streamed) are not kept. Nothing is cut inside a UTF-8 character. Pure.

/// A stream that is being written.
#[derive(Debug)]
pub struct Capture {
    /// The size of the head, and of the tail too.
    half_bytes: usize,
    /// The free space of the head.
    head_room: usize,
    /// The part of the head that has not been streamed.
    head: Vec<u8>,
    /// Appended to until it is full, then a ring.
    tail: Vec<u8>,
    /// The oldest byte of the ring, which is the next to be overwritten.
    oldest: usize,
    omitted_bytes: u64,
}

/// The unstreamed part of a stream that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured {
    pub head: Vec<u8>,
    /// Bytes between the head and the tail; 0 if the stream is complete.
    pub omitted_bytes: u64,
    pub tail: Vec<u8>,
}

impl Capture {
    /// `None`: no limit, for a stream that is streamed while it arrives.
    pub fn new(limit_bytes: Option<usize>) -> Self {
        let half_bytes = limit_bytes.map_or(usize::MAX, |limit| (limit / 2).max(1));
        let (head, tail) = (Vec::new(), Vec::new());
        Self { half_bytes, head_room: half_bytes, head, tail, oldest: 0, omitted_bytes: 0 }
    }

    /// Adds output.
    pub fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_room));
        self.head.extend_from_slice(head);
        self.head_room -= head.len();
        let tail_room = self.half_bytes - self.tail.len();
        let (tail, rest) = rest.split_at(rest.len().min(tail_room));
        self.tail.extend_from_slice(tail);
        self.overwrite(rest);
    }

    /// Adds output to the ring, in the place of its oldest bytes.
    fn overwrite(&mut self, bytes: &[u8]) {
        self.omitted_bytes += bytes.len() as u64;
        // Only the end can stay.
        let skipped = bytes.len().saturating_sub(self.half_bytes);
        let (skipped, bytes) = bytes.split_at(skipped);
        self.oldest = (self.oldest + skipped.len()) % self.half_bytes;
        let (to_end, from_start) = bytes.split_at(bytes.len().min(self.half_bytes - self.oldest));
        for part in [to_end, from_start] {
            if let Some(oldest) = self.tail.get_mut(self.oldest..self.oldest + part.len()) {
                oldest.copy_from_slice(part);
            }
            self.oldest = (self.oldest + part.len()) % self.half_bytes;
        }
    }

    /// Whether a limit was reached, so that output is being omitted.
    pub fn is_omitting(&self) -> bool {
        self.omitted_bytes > 0
    }

    /// Whether the next output still belongs to the head.
    pub fn is_in_head(&self) -> bool {
        self.head_room > 0
    }

    /// The part of the head that has not been streamed.
    pub fn pending(&self) -> &[u8] {
        &self.head
    }

    /// The part that can be streamed now: the pending head less its last `held_bytes`. It can be decoded by
    /// itself, since it neither begins nor ends inside a character.
    pub fn streamable(&self, held_bytes: usize) -> &[u8] {
        let (ready, _) = self.head.split_at(self.head.len().saturating_sub(held_bytes));
        without_incomplete_end(ready)
    }

    /// The first pending character, or the first invalid sequence.
    pub fn next_character(&self) -> &[u8] {
        let is_complete = |count: &usize| {
            let front = self.head.split_at(*count).0;
            without_incomplete_end(front).len() == *count
        };
        let count = (1..=self.head.len().min(LONGEST_CHARACTER)).find(is_complete);
        self.head.split_at(count.unwrap_or(0)).0
    }

    /// Forgets this many pending bytes, which have been streamed.
    pub fn streamed(&mut self, count: usize) {
        self.head.drain(..count);
    }

    pub fn finish(self) -> Captured {
        let Self { mut head, mut tail, oldest, mut omitted_bytes, .. } = self;
        if omitted_bytes == 0 {
            head.append(&mut tail);
        } else {
            tail.rotate_left(oldest);
            let complete = without_incomplete_end(&head).len();
            omitted_bytes += (head.len() - complete) as u64 + cut_incomplete_start(&mut tail);
            head.truncate(complete);
        }
        Captured { head, omitted_bytes, tail }
    }
}

/// The bytes of the longest UTF-8 character.
const LONGEST_CHARACTER: usize = 4;

/// All but an incomplete character at the end.
fn without_incomplete_end(bytes: &[u8]) -> &[u8] {
    let is_incomplete = |count: &usize| {
        let end = bytes.split_at(bytes.len() - count).1;
        std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    let incomplete = (1..LONGEST_CHARACTER.min(bytes.len() + 1)).find(is_incomplete);
    bytes.split_at(bytes.len() - incomplete.unwrap_or(0)).0
}

/// Removes continuation bytes whose character began earlier; returns how many.
fn cut_incomplete_start(bytes: &mut Vec<u8>) -> u64 {
    let count = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    bytes.drain(..count);
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(limit: usize, text: &[u8], piece_bytes: usize) -> Captured {
        let mut capture = Capture::new(Some(limit));
        text.chunks(piece_bytes).for_each(|piece| capture.push(piece));
        capture.finish()
    }

    #[track_caller]
    fn check(limit: usize, text: &str, head: &str, omitted_bytes: u64, tail: &str) {
        for piece_bytes in 1..=text.len() {
            let captured = capture(limit, text.as_bytes(), piece_bytes);
            let expected = Captured { head: head.into(), omitted_bytes, tail: tail.into() };
            assert_eq!(captured, expected, "in pieces of {piece_bytes}");
        }
    }

    #[test]
    fn output_within_the_limit_is_kept_whole() {
        check(8, "abc", "abc", 0, "");
        check(8, "abcdefgh", "abcdefgh", 0, "");
    }

    #[test]
    fn output_past_the_limit_loses_its_middle() {
        check(8, "abcdefghi", "abcd", 1, "fghi");
        check(8, "abcdefghijklmnopqrstuvwxyz", "abcd", 18, "wxyz");
        check(2, "abcdef", "a", 4, "f");
    }

    #[test]
    fn characters_are_not_cut() {
        check(6, "aé€abcé€", "aé", 8, "€"); // OU-08: 3 bytes each
        check(10, "éééééééé", "éé", 8, "éé"); // 5 bytes each: half a character more
        check(8, "€€€€€€", "€", 12, "€");
        check(10, "😀😀😀😀😀", "😀", 12, "😀");
    }

    #[test]
    fn invalid_bytes_are_kept() {
        let captured = capture(8, b"\xff\xff\xff\xff....\xff\xff\xff\xff", 12);
        assert_eq!((captured.omitted_bytes, captured.tail.as_slice()), (4, &b"\xff\xff\xff\xff"[..]));
    }

    #[test]
    fn streamed_bytes_are_not_kept() {
        let mut capture = Capture::new(None);
        capture.push("abcdefgh€€".as_bytes());
        assert_eq!(capture.streamable(2), "abcdefgh€".as_bytes());
        capture.streamed(11);
        assert_eq!((capture.next_character(), capture.pending().len()), ("€".as_bytes(), 3));
        capture.streamed(3);
        assert_eq!((capture.next_character(), capture.streamable(0)), (&b""[..], &b""[..]));
        capture.push(b"\xff\xe2");
        assert_eq!((capture.next_character(), capture.streamable(0)), (&b"\xff"[..], &b"\xff"[..]));
    }
}
