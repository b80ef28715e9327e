//! What a path below the base directory means, and what can be done there: [`open`], [`list`], [`exists`], and
//! replace a file ([`Replacement`]).
//!
//! Invariant: nothing outside the base directory is read, written, or told about. Each operation first has its path
//! followed by [`Root`] to a directory inside, by descriptor, and then works on one entry of that directory without
//! following it.
//!
//! Errors say what is wrong, and leave it to the caller what a client is told.

mod listing;
mod path;
mod replacement;
mod root;
mod walk;

#[cfg(test)]
mod tests;

pub use crate::sys::fs::{Identity, Modified};
pub use listing::{Entry, EntryKind, list};
pub use path::RelPath;
pub use replacement::Replacement;
pub use root::Root;

use crate::sys::errno;
use crate::sys::fs::{self, Kind, Stat};
use std::fs::File;
use std::os::fd::AsFd;
use std::{error, fmt, io};

/// A regular file, open for reading, and what it was when it was opened.
#[derive(Debug)]
pub struct OpenFile {
    pub file: File,
    pub size: u64,
    pub modified: Modified,
    pub identity: Identity,
}

#[derive(Debug)]
pub enum Error {
    /// The path leaves the base directory, has a NUL in it, or goes through a magic link.
    Denied,
    NotFound,
    /// There is something that is not a directory where the path needs one.
    NotADirectory,
    IsADirectory,
    /// It is a FIFO, device or socket.
    NotAFile,
    /// No file can be made under this name; says why.
    InvalidName(&'static str),
    /// `ELOOP` or `ENAMETOOLONG`: the path cannot be followed.
    BadPath(io::Error),
    /// `EACCES`, `EPERM`, `EROFS`: the system does not let us.
    NotPermitted(io::Error),
    /// `ENOSPC`, `EDQUOT`.
    NoSpace(io::Error),
    Io {
        doing: &'static str,
        source: io::Error,
    },
}

/// Opens a regular file for reading.
///
/// It never waits, and never opens anything else: only a file that is replaced by a FIFO, device or socket at this very
/// moment is opened as that, without waiting, and closed again.
///
/// # Errors
/// [`Error::IsADirectory`] or [`Error::NotAFile`] if it is anything else.
pub fn open(root: &Root, path: &RelPath) -> Result<OpenFile, Error> {
    let place = root.locate(path)?;
    only_a_file(&place.object.ok_or(Error::NotFound)?)?;
    let opened =
        fs::open_to_read(place.directory.as_fd(), &place.name).map_err(Error::doing("opening the file"))?;
    let stat = fs::stat(opened.as_fd()).map_err(Error::doing("looking at the file"))?;
    only_a_file(&stat)?;
    Ok(OpenFile {
        file: File::from(opened),
        size: stat.size,
        modified: stat.modified,
        identity: stat.identity,
    })
}

fn only_a_file(stat: &Stat) -> Result<(), Error> {
    match stat.kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::IsADirectory),
        _ => Err(Error::NotAFile),
    }
}

/// Whether the path leads to anything, links followed; `false` too where that cannot be found out (EXI-02).
///
/// # Errors
/// [`Error::Denied`], and [`Error::Io`] when the system is in trouble.
pub fn exists(root: &Root, path: &RelPath) -> Result<bool, Error> {
    match root.locate(path) {
        Ok(place) => Ok(place.object.is_some()),
        Err(error) if error.is_about_the_path() => Ok(false),
        Err(error) => Err(error),
    }
}

impl Error {
    /// For `map_err`: sorts the kernel's errors.
    fn doing(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| match source.raw_os_error() {
            Some(errno::ENOENT) => Error::NotFound,
            Some(errno::ENOTDIR) => Error::NotADirectory,
            Some(errno::EISDIR) => Error::IsADirectory,
            Some(errno::ENXIO) => Error::NotAFile,
            Some(errno::ELOOP | errno::ENAMETOOLONG) => Error::BadPath(source),
            Some(errno::EACCES | errno::EPERM | errno::EROFS) => Error::NotPermitted(source),
            Some(errno::ENOSPC | errno::EDQUOT) => Error::NoSpace(source),
            _ => Error::Io { doing, source },
        }
    }

    fn bad_path(errno: i32) -> Error {
        Error::BadPath(io::Error::from_raw_os_error(errno))
    }

    /// It tells that the path leads nowhere, rather than that it must not be followed or that the system failed.
    fn is_about_the_path(&self) -> bool {
        matches!(self, Error::NotFound | Error::NotADirectory | Error::BadPath(_) | Error::NotPermitted(_))
    }

    /// Whether it is a shortage that passes, such as one of memory or descriptors.
    pub fn is_transient_shortage(&self) -> bool {
        matches!(self, Error::Io { source, .. } if errno::is_transient_shortage(source))
    }

    /// The errno that the kernel gave, or would give (errno(3)); none for what is refused by our own rules.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::Denied | Error::NotAFile | Error::InvalidName(_) => None,
            Error::NotFound => Some(errno::ENOENT),
            Error::NotADirectory => Some(errno::ENOTDIR),
            Error::IsADirectory => Some(errno::EISDIR),
            Error::BadPath(source)
            | Error::NotPermitted(source)
            | Error::NoSpace(source)
            | Error::Io { source, .. } => source.raw_os_error(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Denied => f.write_str("the path leaves the base directory"),
            Error::NotFound => f.write_str("no such file or directory"),
            Error::NotADirectory => f.write_str("not a directory"),
            Error::IsADirectory => f.write_str("a directory"),
            Error::NotAFile => f.write_str("not a regular file"),
            Error::InvalidName(why) => f.write_str(why),
            Error::BadPath(source) => write!(f, "the path cannot be followed: {source}"),
            Error::NotPermitted(source) => write!(f, "not permitted: {source}"),
            Error::NoSpace(source) => write!(f, "no space: {source}"),
            Error::Io { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl error::Error for Error {}
