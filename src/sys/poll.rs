//! Waiting for descriptors, and pipes and sockets to wait for: poll(2), pipe(2), read(2), listen(2),
//! setsockopt(2).
//!
//! [`poll`] ends at its instant however often signals interrupt it. It borrows descriptors, and a [`PollFd`]
//! holds only the result of the last call.

use super::{check, check_length, retry};
use std::io;
use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// One descriptor and the events to wait for.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PollFd<'fd> {
    raw: libc::pollfd,
    borrowed: PhantomData<BorrowedFd<'fd>>,
}

/// The state of a pipe for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Empty,
    /// Bytes, or an error.
    Ready,
    /// End-of-file, without bytes before it: no read is needed to find out.
    End,
}

impl<'fd> PollFd<'fd> {
    /// Waits for bytes, for end-of-file, or for a connection.
    pub fn readable(descriptor: BorrowedFd<'fd>) -> Self {
        Self::new(descriptor.as_raw_fd(), libc::POLLIN)
    }

    /// Waits until a write would not block.
    pub fn writable(descriptor: BorrowedFd<'fd>) -> Self {
        Self::new(descriptor.as_raw_fd(), libc::POLLOUT)
    }

    /// Waits for the peer of a socket to half-close the connection or to disconnect.
    pub fn half_close(descriptor: BorrowedFd<'fd>) -> Self {
        Self::new(descriptor.as_raw_fd(), libc::POLLRDHUP)
    }

    /// Waits for the peer to disconnect: a reset, or both sides shut down.
    pub fn disconnect(descriptor: BorrowedFd<'fd>) -> Self {
        Self::new(descriptor.as_raw_fd(), 0)
    }

    /// Also waits until a write would not block.
    #[must_use]
    pub fn or_writable(mut self) -> Self {
        self.raw.events |= libc::POLLOUT;
        self
    }

    /// Waits for nothing: an unused slot of a fixed array.
    pub fn nothing() -> Self {
        Self::new(-1, 0)
    }

    fn new(fd: RawFd, events: libc::c_short) -> Self {
        Self { raw: libc::pollfd { fd, events, revents: 0 }, borrowed: PhantomData }
    }

    /// Whether anything was reported: a requested event, an error, or a hang-up.
    pub fn is_ready(&self) -> bool {
        self.raw.revents != 0
    }

    /// The state of a pipe, after a wait.
    pub fn input(&self) -> Input {
        match self.raw.revents {
            0 => Input::Empty,
            libc::POLLHUP => Input::End,
            _ => Input::Ready,
        }
    }

    /// Whether the peer of a socket has half-closed the connection, if that was waited for.
    pub fn is_half_closed(&self) -> bool {
        self.raw.revents & libc::POLLRDHUP != 0
    }

    /// Whether the peer has disconnected in both directions (a reset, or both sides shut down), so that a
    /// write could not reach it.
    pub fn is_disconnected(&self) -> bool {
        self.raw.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0
    }
}

impl std::fmt::Debug for PollFd<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let libc::pollfd { fd, events, revents } = self.raw;
        write!(f, "PollFd {{ fd: {fd}, events: {events:#x}, revents: {revents:#x} }}")
    }
}

/// Waits until a descriptor is ready or the instant has come (`None` waits forever); returns how many are
/// ready.
///
/// # Errors
/// `ENOMEM`, or `EINVAL` for more descriptors than the process may have open (poll(2)).
pub fn poll(descriptors: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<usize> {
    loop {
        let ready =
            poll_once(descriptors, until.map(|instant| instant.saturating_duration_since(Instant::now())));
        match ready {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // One call waits 24 days at most; a later instant needs several calls.
            Ok(0) if until.is_none_or(|instant| Instant::now() < instant) => {}
            result => return result,
        }
    }
}

fn poll_once(descriptors: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    // Rounded up, so that a wait does not end before its instant and then spin.
    let milliseconds = timeout.map_or(-1, |left| {
        libc::c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
    });
    let count = libc::nfds_t::try_from(descriptors.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: `PollFd` is a transparent `pollfd`, and the pointer and the count describe the exclusively
    // borrowed slice. A descriptor that was closed meanwhile is reported as POLLNVAL; it is never
    // dereferenced.
    let ready = check(unsafe { libc::poll(descriptors.as_mut_ptr().cast(), count, milliseconds) })?;
    Ok(usize::try_from(ready).unwrap_or(0))
}

/// A pipe: its read end and its write end. Both are close-on-exec from creation, so that a command that
/// another thread starts at this moment inherits neither.
///
/// # Errors
/// `EMFILE` or `ENFILE` if no descriptor is free.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the pointer is to two writable integers, as pipe2(2) requires.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    let [read, write] = ends;
    // SAFETY: pipe2 succeeded, so this descriptor is open and has no other owner.
    let read = unsafe { OwnedFd::from_raw_fd(read) };
    // SAFETY: as above.
    let write = unsafe { OwnedFd::from_raw_fd(write) };
    Ok((read, write))
}

/// Sets how many bytes a pipe can hold (`F_SETPIPE_SZ`, fcntl(2)).
///
/// # Errors
/// `EPERM` past the limits for unprivileged users (pipe(7)), `ENOMEM`, `EBUSY`.
pub fn widen_pipe(pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: F_SETPIPE_SZ takes an integer.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) })?;
    Ok(())
}

/// Reads once and appends at most `max_bytes` to `buffer`; returns how many, 0 at end-of-file.
///
/// # Errors
/// Those of read(2), `EAGAIN` for a non-blocking descriptor among them.
pub fn read_append(descriptor: BorrowedFd<'_>, buffer: &mut Vec<u8>, max_bytes: usize) -> io::Result<usize> {
    buffer.reserve(max_bytes);
    let spare = buffer.spare_capacity_mut();
    let room = spare.len().min(max_bytes);
    let (start, fd) = (spare.as_mut_ptr(), descriptor.as_raw_fd());
    // SAFETY: `start` points to at least `room` bytes of exclusively borrowed capacity; read(2) writes no
    // more.
    let count = retry(|| check_length(unsafe { libc::read(fd, start.cast(), room) }))?;
    // SAFETY: read(2) has just initialised `count` bytes beyond the old length, within the capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// Reads once into `buffer`; returns how many bytes, 0 at end-of-file.
///
/// # Errors
/// Those of read(2).
pub fn read(descriptor: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (start, room, fd) = (buffer.as_mut_ptr(), buffer.len(), descriptor.as_raw_fd());
    // SAFETY: `start` and `room` describe the exclusively borrowed slice.
    retry(|| check_length(unsafe { libc::read(fd, start.cast(), room) }))
}

/// Sets the size of a socket's send buffer (`SO_SNDBUF`, socket(7)), which the kernel no longer adjusts then.
///
/// # Errors
/// None in practice.
pub fn limit_send_buffer(stream: &TcpStream, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let length = libc::socklen_t::try_from(size_of_val(&bytes)).unwrap_or(0);
    // SAFETY: the pointer is to a live integer of the length given, and the descriptor is borrowed from an
    // open stream.
    check(unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const bytes).cast(),
            length,
        )
    })?;
    Ok(())
}

/// Sets how many connections can wait to be accepted (std asks for 128). On Linux a second listen(2) only
/// changes that.
///
/// # Errors
/// Those of listen(2).
pub fn widen_backlog(listener: &TcpListener, connections: u16) -> io::Result<()> {
    // SAFETY: listen(2) takes no pointer, and the descriptor is borrowed from an open listener.
    check(unsafe { libc::listen(listener.as_raw_fd(), libc::c_int::from(connections)) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn a_wait_does_not_end_before_its_instant() {
        let (read, _write) = pipe().unwrap();
        let until = Instant::now() + Duration::from_micros(1500);
        assert_eq!(poll(&mut [PollFd::readable(read.as_fd())], Some(until)).unwrap(), 0);
        assert!(Instant::now() >= until);
    }

    #[test]
    fn bytes_and_end_of_file_are_both_readable() {
        let (read, write) = pipe().unwrap();
        let mut bytes = b"a".to_vec();
        let mut write = std::fs::File::from(write);
        write.write_all(b"bc").unwrap();
        let mut waited = [PollFd::readable(read.as_fd()), PollFd::nothing()];
        assert_eq!(poll(&mut waited, None).unwrap(), 1);
        assert!(waited[0].is_ready() && !waited[1].is_ready());
        assert_eq!((waited[0].input(), waited[1].input()), (Input::Ready, Input::Empty));
        assert_eq!(read_append(read.as_fd(), &mut bytes, 1).unwrap(), 1);
        assert_eq!(read_append(read.as_fd(), &mut bytes, 10).unwrap(), 1);
        assert_eq!(bytes, b"abc");
        write.write_all(b"d").unwrap();
        drop(write);
        assert_eq!(poll(&mut waited, None).unwrap(), 1);
        assert_eq!(waited[0].input(), Input::Ready);
        assert_eq!(read_append(read.as_fd(), &mut bytes, 10).unwrap(), 1);
        assert_eq!(poll(&mut waited, None).unwrap(), 1);
        assert_eq!(waited[0].input(), Input::End);
        assert_eq!(read_append(read.as_fd(), &mut bytes, 10).unwrap(), 0);
    }
}
