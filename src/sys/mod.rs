//! System calls: every `unsafe` block and every use of `libc` in the project is in this folder.
//!
//! Each function takes borrowed descriptors and plain values, makes one call, and returns an owned value or
//! an [`io::Error`] that carries the errno. Cleanup is done by `Drop`. Nothing here knows what
//! a command, a request or a base directory is.
//!
//! A call that a signal interrupted is repeated ([`retry`]); callers never see `EINTR`.
#![expect(unsafe_code, reason = "the only folder where it is allowed")]

pub mod directory;
pub mod environment;
pub mod errno;
pub mod fs;
pub mod poll;
pub mod prctl;
pub mod process;
pub mod signals;
pub mod spawn;

use std::io;

/// The return value of a C function as a result: -1 means that errno has the reason.
fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// The same for functions that return a length.
fn check_length(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Repeats a call for as long as signals interrupt it (`EINTR`, signal(7)).
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
