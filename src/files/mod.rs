//! Paths below the base directory, and the operations on them: [`open`], [`list`], [`exists`], and replacing
//! a file ([`Replacement`]).
//!
//! Invariant: nothing outside the base directory is read, written or disclosed. Each operation first resolves
//! its path with [`Root`] to the descriptor of a directory inside, and then works on one entry of that
//! directory without following it.
//!
//! Errors name the cause; the caller chooses what the client sees.

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

/// A regular file, open for reading, and its metadata from that moment.
#[derive(Debug)]
pub struct OpenFile {
    pub file: File,
    pub size: u64,
    pub modified: Modified,
    pub identity: Identity,
}

/// Why an operation failed.
#[derive(Debug)]
pub enum Error {
    /// The path leaves the base directory, contains a NUL, or goes through a magic link.
    Denied,
    NotFound,
    /// A component of the path that must be a directory is not one.
    NotADirectory,
    IsADirectory,
    /// It is a FIFO, device or socket.
    NotAFile,
    /// A file cannot have this name, with the reason.
    InvalidName(&'static str),
    /// `ELOOP` or `ENAMETOOLONG`: the path cannot be resolved.
    BadPath(io::Error),
    /// `EACCES`, `EPERM` or `EROFS`.
    NotPermitted(io::Error),
    /// `ENOSPC` or `EDQUOT`.
    NoSpace(io::Error),
    /// Any other error, and what was attempted.
    Io {
        doing: &'static str,
        source: io::Error,
    },
}

/// Opens a regular file for reading.
///
/// It never blocks. Other kinds of files are not opened, with one exception: a file that is replaced at this
/// very moment by a FIFO, device or socket is opened as that, without blocking, and closed again.
///
/// # Errors
/// [`Error::IsADirectory`] or [`Error::NotAFile`] if it is not a regular file.
pub fn open(root: &Root, path: &RelPath) -> Result<OpenFile, Error> {
    let location = root.locate(path)?;
    check_is_file(&location.object.ok_or(Error::NotFound)?)?;
    let opened = fs::open_to_read(location.directory.as_fd(), &location.name)
        .map_err(Error::doing("opening the file"))?;
    let stat = fs::stat(opened.as_fd()).map_err(Error::doing("reading the metadata of the file"))?;
    check_is_file(&stat)?;
    Ok(OpenFile {
        file: File::from(opened),
        size: stat.size,
        modified: stat.modified,
        identity: stat.identity,
    })
}

fn check_is_file(stat: &Stat) -> Result<(), Error> {
    match stat.kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::IsADirectory),
        _ => Err(Error::NotAFile),
    }
}

/// Whether the path exists, symlinks followed. `false` also if it cannot be resolved (EXI-02).
///
/// # Errors
/// [`Error::Denied`], and [`Error::Io`] if the system fails.
pub fn exists(root: &Root, path: &RelPath) -> Result<bool, Error> {
    match root.locate(path) {
        Ok(location) => Ok(location.object.is_some()),
        Err(error) if error.is_about_the_path() => Ok(false),
        Err(error) => Err(error),
    }
}

impl Error {
    /// For `map_err`: classifies an error of the kernel.
    fn doing(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(errno::ENOENT) => Self::NotFound,
            Some(errno::ENOTDIR) => Self::NotADirectory,
            Some(errno::EISDIR) => Self::IsADirectory,
            Some(errno::ENXIO) => Self::NotAFile,
            Some(errno::ELOOP | errno::ENAMETOOLONG) => Self::BadPath(source),
            Some(errno::EACCES | errno::EPERM | errno::EROFS) => Self::NotPermitted(source),
            Some(errno::ENOSPC | errno::EDQUOT) => Self::NoSpace(source),
            _ => Self::Io { doing, source },
        }
    }

    fn bad_path(errno: i32) -> Self {
        Self::BadPath(io::Error::from_raw_os_error(errno))
    }

    /// Whether the path does not exist or cannot be resolved, as opposed to being denied or to a failure of
    /// the system.
    fn is_about_the_path(&self) -> bool {
        matches!(self, Self::NotFound | Self::NotADirectory | Self::BadPath(_) | Self::NotPermitted(_))
    }

    /// Whether it is a shortage that passes, such as one of memory or descriptors.
    pub fn is_transient_shortage(&self) -> bool {
        matches!(self, Self::Io { source, .. } if errno::is_transient_shortage(source))
    }

    /// The errno that the kernel returned, or would return (errno(3)); `None` for a refusal by our own rules.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Denied | Self::NotAFile | Self::InvalidName(_) => None,
            Self::NotFound => Some(errno::ENOENT),
            Self::NotADirectory => Some(errno::ENOTDIR),
            Self::IsADirectory => Some(errno::EISDIR),
            Self::BadPath(source)
            | Self::NotPermitted(source)
            | Self::NoSpace(source)
            | Self::Io { source, .. } => source.raw_os_error(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied => f.write_str("the path leaves the base directory"),
            Self::NotFound => f.write_str("no such file or directory"),
            Self::NotADirectory => f.write_str("not a directory"),
            Self::IsADirectory => f.write_str("a directory"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::InvalidName(why) => f.write_str(why),
            Self::BadPath(source) => write!(f, "the path cannot be resolved: {source}"),
            Self::NotPermitted(source) => write!(f, "not permitted: {source}"),
            Self::NoSpace(source) => write!(f, "no space: {source}"),
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl error::Error for Error {}
