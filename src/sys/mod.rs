//! The kernel, called by hand: every `unsafe` block and every use of `libc` in the project is in this folder.
//!
//! Each function takes borrowed descriptors and plain values, makes one call, and gives back an owned value or an
//! [`io::Error`] that carries the errno. Whatever must be undone is undone by `Drop`. Nothing here knows what a
//! command, a request or a base directory is.
//!
//! A call that a signal interrupted is made again ([`retry`]); callers never see `EINTR`.
#![expect(unsafe_code, reason = "the one place for it")]

pub mod errno;
pub mod fs;
pub mod poll;
pub mod process;
pub mod spawn;

use std::io;

/// What a C function returned, as a result: -1 means that errno tells why.
fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// The same for functions that return a length.
fn check_length(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Makes a call again for as long as a signal interrupts it (`EINTR`, signal(7)).
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
