//! A TCP stream under a [`Deadline`]: fills a buffer, writes all of a payload, closes without losing written
//! bytes.
//!
//! The socket never blocks; every wait is a poll(2) with an end.

use super::Limits;
use crate::deadline::Deadline;
use crate::sys::poll::{PollFd, limit_send_buffer, poll, read_append};
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The size of one read, of a head and of a body.
pub(super) const HEAD_READ_BYTES: usize = 4 << 10;
pub(super) const BODY_READ_BYTES: usize = 256 << 10;

/// The size of one read of a file. Between processes of one machine this is faster than sendfile(2), whose
/// pages are not in the cache of the reader's processor.
const FILE_READ_BYTES: usize = 256 << 10;

/// The send buffer for a file to a peer on this machine. Without latency to hide a larger one does
/// not help; this much is still in the processor's cache when the peer reads it, which halves the time of
/// that.
const LOOPBACK_SEND_BUFFER_BYTES: usize = 256 << 10;

/// How much a connection that is being closed may still send, and for how long. Enough for a client that
/// sends a large body before it reads the response.
const DRAIN_BYTES: usize = 512 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// The same for a client that has sent its whole request.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// The stream.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    locality: Locality,
}

/// Where the peer is, judging by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locality {
    Loopback,
    Remote,
}

/// Why reading or writing failed.
#[derive(Debug)]
pub(super) enum Fault {
    TimedOut,
    /// The peer has shut down its sending side.
    Closed,
    Broken(io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the peer was too slow"),
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::Broken(error) => write!(f, "the connection failed: {error}"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// How long a transfer may take: a fixed time, and more for each byte transferred. So sending a byte now and
/// then gains almost nothing, and a large file over a slow line arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    started: Instant,
    limits: Limits,
    transferred_bytes: u64,
}

impl Allowance {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { started: Instant::now(), limits: *limits, transferred_bytes: 0 }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.transferred_bytes += bytes as u64;
    }

    pub(super) fn deadline(&self) -> Deadline {
        let earned =
            Duration::from_secs(self.transferred_bytes / self.limits.slowest_bytes_per_second.max(1));
        Deadline::after(self.started, self.limits.transfer + earned)
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let is_loopback = peer.ip().to_canonical().is_loopback();
        let locality = if is_loopback { Locality::Loopback } else { Locality::Remote };
        Ok(Self { stream, locality })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Appends received bytes to the buffer, at least one.
    pub(super) fn fill(
        &self,
        buffer: &mut Vec<u8>,
        at_most_bytes: usize,
        deadline: Deadline,
    ) -> Result<usize, Fault> {
        loop {
            match read_append(self.stream.as_fd(), buffer, at_most_bytes) {
                Ok(0) => return Err(Fault::Closed),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if !self.wait_readable(deadline)? {
                return Err(Fault::TimedOut);
            }
        }
    }

    /// Waits for something to read; returns whether it came in time.
    pub(super) fn wait_readable(&self, deadline: Deadline) -> io::Result<bool> {
        Ok(poll(&mut [PollFd::readable(self.stream.as_fd())], Some(deadline.instant()))? > 0)
    }

    /// Writes all of these pieces, in one call if the socket takes them.
    pub(super) fn write<const N: usize>(
        &self,
        pieces: [&[u8]; N],
        allowance: &mut Allowance,
    ) -> Result<(), Fault> {
        let mut slices = pieces.map(IoSlice::new);
        let mut left = slices.as_mut_slice();
        // Skips empty pieces.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let count = self.when_writable(allowance, || (&self.stream).write_vectored(left))?;
            IoSlice::advance_slices(&mut left, count);
        }
        Ok(())
    }

    /// Writes a part of a file, and before it the head. A file that has become shorter fails the connection,
    /// since the announced length can no longer be sent.
    pub(super) fn write_file(
        &self,
        head: &[u8],
        mut file: &File,
        offset: u64,
        length: u64,
        allowance: &mut Allowance,
    ) -> Result<(), Fault> {
        if self.locality == Locality::Loopback && length > LOOPBACK_SEND_BUFFER_BYTES as u64 {
            limit_send_buffer(&self.stream, LOOPBACK_SEND_BUFFER_BYTES)?;
        }
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        let (mut before, mut left) = (head, length);
        let mut piece = Vec::new();
        while left > 0 || !before.is_empty() {
            piece.clear();
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(FILE_READ_BYTES);
            if room > 0 && read_append(file.as_fd(), &mut piece, room)? == 0 {
                return Err(Fault::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
            self.write([before, &piece], allowance)?;
            before = b"";
            left -= piece.len() as u64;
        }
        Ok(())
    }

    /// Writes as much as the socket takes now, possibly nothing.
    pub(super) fn write_now(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match (&self.stream).write_vectored(pieces) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    fn when_writable(
        &self,
        allowance: &mut Allowance,
        mut write: impl FnMut() -> io::Result<usize>,
    ) -> Result<usize, Fault> {
        loop {
            match write() {
                Ok(0) => return Err(Fault::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    allowance.add(count);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            let until = allowance.deadline().instant();
            if poll(&mut [PollFd::writable(self.stream.as_fd())], Some(until))? == 0 {
                return Err(Fault::TimedOut);
            }
        }
    }

    /// Shuts down the sending side, drains the input, and closes. Closing with unread input
    /// would send a reset, which can destroy the response before the client has read it (RFC 9112 section
    /// 9.6).
    pub(super) fn close(self, unread: UnreadInput) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let until = Deadline::within(match unread {
            UnreadInput::Expected => DRAIN_TIME,
            UnreadInput::Unexpected => CLOSE_TIME,
            UnreadInput::Ignored => Duration::ZERO,
        });
        let mut buffer = Vec::new();
        let mut drained = 0;
        while let Ok(count) = self.fill(&mut buffer, BODY_READ_BYTES, until) {
            buffer.clear();
            drained += count;
            if drained > DRAIN_BYTES || until.has_passed() {
                return;
            }
        }
    }
}

/// The input that may still arrive when a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnreadInput {
    /// The rest of a body.
    Expected,
    /// Nothing; a short wait is enough.
    Unexpected,
    /// Not waited for.
    Ignored,
}
