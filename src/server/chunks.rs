//! A body that is made while it is written: gathered into chunks, each one write (RFC 9112 section 7.1).

use super::wire::{Fault, Pace, Wire};
use std::io::{self, Write};

/// How much is gathered.
const CHUNK_BYTES: usize = 32 << 10;

/// How the client learns where the body ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Chunked,
    /// By the end of the connection.
    Plain,
}

impl Coding {
    /// What goes before and after a part of this size. Nothing does when it is empty: an empty chunk would be the last.
    pub(super) fn frame(self, bytes: usize) -> (String, &'static [u8]) {
        match self {
            Self::Chunked if bytes > 0 => (format!("{bytes:x}\r\n"), b"\r\n"),
            _ => (String::new(), b""),
        }
    }
}

/// The writer.
pub(super) struct ChunkWriter<'a> {
    wire: &'a Wire,
    pace: &'a mut Pace,
    coding: Coding,
    /// What goes out before the next chunk: the head, or what is left of what was sent before.
    before: Vec<u8>,
    gathered: Vec<u8>,
    /// Why the wire took no more; [`io::Error`] can not tell it.
    pub(super) fault: Option<Fault>,
}

impl<'a> ChunkWriter<'a> {
    pub(super) fn new(wire: &'a Wire, pace: &'a mut Pace, coding: Coding, head: Vec<u8>) -> Self {
        Self { wire, pace, coding, before: head, gathered: Vec::with_capacity(CHUNK_BYTES), fault: None }
    }

    /// Sends the rest, and the end.
    pub(super) fn finish(mut self) -> Result<(), Fault> {
        let end: &[u8] = if self.coding == Coding::Chunked { b"0\r\n\r\n" } else { b"" };
        self.send(end)
    }

    fn send(&mut self, end: &[u8]) -> Result<(), Fault> {
        let (before, after) = self.coding.frame(self.gathered.len());
        self.wire.write([&self.before, before.as_bytes(), &self.gathered, after, end], self.pace)?;
        self.before.clear();
        self.gathered.clear();
        Ok(())
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK_BYTES - self.gathered.len();
        let (now, _) = bytes.split_at(room.min(bytes.len()));
        self.gathered.extend_from_slice(now);
        if self.gathered.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send(b"").map_err(|fault| {
            self.fault = Some(fault);
            io::ErrorKind::BrokenPipe.into()
        })
    }
}
