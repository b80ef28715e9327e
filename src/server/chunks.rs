//! A body of unknown length: collected into chunks, each sent with one write (RFC 9112 section 7.1).

use super::wire::{Allowance, Fault, Wire};
use std::io::{self, Write};

/// The size of a chunk.
const CHUNK_BYTES: usize = 32 << 10;

/// How the client recognises the end of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Chunked,
    /// By the end of the connection, for HTTP/1.0.
    UntilClose,
}

impl Framing {
    /// The bytes before and after a part of this size. An empty part must not become a chunk, since that
    /// would be the last.
    pub(super) fn frame(self, bytes: usize) -> (String, &'static [u8]) {
        match self {
            Self::Chunked if bytes > 0 => (format!("{bytes:x}\r\n"), b"\r\n"),
            _ => (String::new(), b""),
        }
    }
}

pub(super) struct ChunkWriter<'a> {
    wire: &'a Wire,
    allowance: &'a mut Allowance,
    framing: Framing,
    /// Sent before the next chunk: the head, or pending bytes.
    before: Vec<u8>,
    collected: Vec<u8>,
    /// Why writing failed; an [`io::Error`] cannot carry it.
    pub(super) fault: Option<Fault>,
}

impl<'a> ChunkWriter<'a> {
    pub(super) fn new(wire: &'a Wire, allowance: &'a mut Allowance, framing: Framing, head: Vec<u8>) -> Self {
        Self {
            wire,
            allowance,
            framing,
            before: head,
            collected: Vec::with_capacity(CHUNK_BYTES),
            fault: None,
        }
    }

    /// Sends the last chunk, and the end.
    pub(super) fn finish(mut self) -> Result<(), Fault> {
        let end: &[u8] = if self.framing == Framing::Chunked { b"0\r\n\r\n" } else { b"" };
        self.send(end)
    }

    fn send(&mut self, end: &[u8]) -> Result<(), Fault> {
        let (before, after) = self.framing.frame(self.collected.len());
        self.wire.write([&self.before, before.as_bytes(), &self.collected, after, end], self.allowance)?;
        self.before.clear();
        self.collected.clear();
        Ok(())
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK_BYTES - self.collected.len();
        let (now, _) = bytes.split_at(room.min(bytes.len()));
        self.collected.extend_from_slice(now);
        if self.collected.len() == CHUNK_BYTES {
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
