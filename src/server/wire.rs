//! A stream under a [`Deadline`]: fill a buffer, write all of a payload, close without losing what was written.
//!
//! The socket never blocks; every wait is a poll(2) up to an instant.

use super::Limits;
use crate::deadline::Deadline;
use crate::sys::poll::{PollFd, limit_send_buffer, poll, read_append};
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How much is read at once: of a head, and of a body.
pub(super) const HEAD_READ_BYTES: usize = 4 << 10;
pub(super) const BODY_READ_BYTES: usize = 256 << 10;

/// How much of a file is read at once. Between processes of one machine this is faster than sendfile(2), whose pages the
/// reader finds in no cache of its processor.
const FILE_READ_BYTES: usize = 256 << 10;

/// How much of a file is on the way to a peer on this machine. It is there at once, so more on the way brings nothing; as
/// little as this is still in the processor's cache when the peer reads it, which then takes half the time.
const LOCAL_SEND_BUFFER_BYTES: usize = 256 << 10;

/// How much a connection that is being closed may still send, and for how long. Enough that a client which sends a large
/// body without looking comes to see the answer.
const DRAINED_BYTES: usize = 512 << 20;
const DRAINED_TIME: Duration = Duration::from_secs(10);
/// For a client that has sent all it wanted to.
const PARTING_TIME: Duration = Duration::from_secs(1);

/// The stream.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    place: Place,
}

/// Where the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On this machine, as far as can be told.
    Here,
    Elsewhere,
}

/// Why reading or writing did not go on.
#[derive(Debug)]
pub(super) enum Fault {
    Late,
    /// The peer has shut down its sending side.
    Ended,
    Broken(io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late => f.write_str("the peer was too slow"),
            Self::Ended => f.write_str("the peer closed the connection"),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// How long a transfer may take: a fixed time, and more for each byte that has passed. So a single byte now and then buys
/// next to nothing, and a large file over a slow line arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    started: Instant,
    limits: Limits,
    passed_bytes: u64,
}

impl Pace {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { started: Instant::now(), limits: *limits, passed_bytes: 0 }
    }

    pub(super) fn passed(&mut self, bytes: usize) {
        self.passed_bytes += bytes as u64;
    }

    pub(super) fn deadline(&self) -> Deadline {
        let earned = Duration::from_secs(self.passed_bytes / self.limits.slowest_bytes_per_second.max(1));
        Deadline::after(self.started, self.limits.transfer + earned)
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let place = if peer.ip().to_canonical().is_loopback() { Place::Here } else { Place::Elsewhere };
        Ok(Self { stream, place })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Reads what has arrived, at least one byte, to the end of the buffer.
    pub(super) fn fill(
        &self,
        buffer: &mut Vec<u8>,
        at_most_bytes: usize,
        deadline: Deadline,
    ) -> Result<usize, Fault> {
        loop {
            match read_append(self.stream.as_fd(), buffer, at_most_bytes) {
                Ok(0) => return Err(Fault::Ended),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if !self.is_readable_by(deadline)? {
                return Err(Fault::Late);
            }
        }
    }

    /// Waits for something to read.
    pub(super) fn is_readable_by(&self, deadline: Deadline) -> io::Result<bool> {
        Ok(poll(&mut [PollFd::readable(self.stream.as_fd())], Some(deadline.instant()))? > 0)
    }

    /// Writes all of these pieces, in one call if the socket takes them.
    pub(super) fn write<const N: usize>(&self, pieces: [&[u8]; N], pace: &mut Pace) -> Result<(), Fault> {
        let mut slices = pieces.map(IoSlice::new);
        let mut left = slices.as_mut_slice();
        // Skips empty pieces.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let count = self.when_writable(pace, || (&self.stream).write_vectored(left))?;
            IoSlice::advance_slices(&mut left, count);
        }
        Ok(())
    }

    /// Writes this part of a file, and before it the head. A file that has become shorter breaks the connection: what was
    /// promised can not be kept, and nothing else may be taken for it.
    pub(super) fn write_file(
        &self,
        head: &[u8],
        mut file: &File,
        offset: u64,
        length: u64,
        pace: &mut Pace,
    ) -> Result<(), Fault> {
        if self.place == Place::Here && length > LOCAL_SEND_BUFFER_BYTES as u64 {
            limit_send_buffer(&self.stream, LOCAL_SEND_BUFFER_BYTES)?;
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
            self.write([before, &piece], pace)?;
            before = b"";
            left -= piece.len() as u64;
        }
        Ok(())
    }

    /// Writes as much as the socket takes now, which may be nothing.
    pub(super) fn write_now(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match (&self.stream).write_vectored(pieces) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    fn when_writable(
        &self,
        pace: &mut Pace,
        mut write: impl FnMut() -> io::Result<usize>,
    ) -> Result<usize, Fault> {
        loop {
            match write() {
                Ok(0) => return Err(Fault::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    pace.passed(count);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            let until = pace.deadline().instant();
            if poll(&mut [PollFd::writable(self.stream.as_fd())], Some(until))? == 0 {
                return Err(Fault::Late);
            }
        }
    }

    /// Says that nothing more will come, takes in what is still on its way, and closes. Closing with unread input would
    /// send a reset, which can take the answer away from a client that has not read it yet (RFC 9112 section 9.6).
    pub(super) fn close(self, rest: Rest) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let until = Deadline::within(match rest {
            Rest::Unread => DRAINED_TIME,
            Rest::Nothing => PARTING_TIME,
            Rest::NotAwaited => Duration::ZERO,
        });
        let mut buffer = Vec::new();
        let mut drained = 0;
        while let Ok(count) = self.fill(&mut buffer, BODY_READ_BYTES, until) {
            buffer.clear();
            drained += count;
            if drained > DRAINED_BYTES || until.has_passed() {
                return;
            }
        }
    }
}

/// What the peer may still be sending when a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The rest of a body.
    Unread,
    Nothing,
    /// Whatever it is, there is no time to wait for it.
    NotAwaited,
}
