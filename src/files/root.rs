//! The base directory. Every path is resolved from its descriptor.
//!
//! It is **pinned** when it is first opened: the same directory is served even if its path names another one
//! later (CF-15). If that directory is deleted, nothing is found any more, even if a new one is created under
//! the path. A base directory that is missing at the start is opened at the first use after it has been
//! created.
//!
//! There are two resolvers with one outcome. openat2(2) comes first, and only its successes count: a path
//! that it refuses, for any reason, goes to the [`walk`], which alone decides why a path cannot be used. So
//! an absolute symlink that stays inside works with both, and so does `..` at the root of the file system,
//! and without openat2 (an old kernel, a seccomp filter) resolving is only slower (CF-07).

use super::walk;
use super::{Error, RelPath};
use crate::sys::fs::{self, Identity, Kind, Stat};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The base directory, opened or still missing.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    preferred: Resolver,
    base: OnceLock<Base>,
}

/// How paths are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolver {
    Openat2,
    Walk,
}

/// The pinned directory.
#[derive(Debug)]
pub(super) struct Base {
    directory: Arc<OwnedFd>,
    pub(super) identity: Identity,
    /// Whether it is the root of the file system, which is its own `..`, so that no path leaves it (CF-12).
    pub(super) is_root: bool,
    pub(super) resolver: Resolver,
}

/// The result of resolving a path: an entry of a directory inside the base directory. The entry was not a
/// symlink. It may have become one since, so an operation on it must not follow it.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) directory: OwnedFd,
    /// `.` if the path names `directory` itself.
    pub(super) name: CString,
    /// The entry's metadata when it was resolved; `None` if it was missing.
    pub(super) object: Option<Stat>,
}

impl Root {
    /// The directory need not exist yet, and its path may be a symlink.
    pub fn new(path: PathBuf) -> Self {
        Self::with_resolver(path, Resolver::Openat2)
    }

    pub(super) fn with_resolver(path: PathBuf, preferred: Resolver) -> Self {
        let root = Self { path, preferred, base: OnceLock::new() };
        // An error is not reported yet: the next use tries again.
        let _ = root.base();
        root
    }

    /// The path by which it was opened. It may name another directory now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the directory has been opened and pinned.
    pub fn is_open(&self) -> bool {
        self.base.get().is_some()
    }

    /// The directory itself, for fchdir(2) (it is an `O_PATH` descriptor).
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is still missing or has been deleted (EC-07), others if it cannot be opened.
    pub fn directory(&self) -> Result<Arc<OwnedFd>, Error> {
        Ok(Arc::clone(&self.base()?.directory))
    }

    pub(super) fn base(&self) -> Result<&Base, Error> {
        let base = match self.base.get() {
            Some(base) => base,
            None => {
                let opened = Base::open(&self.path, self.preferred)?;
                self.base.get_or_init(|| opened)
            }
        };
        let stat =
            fs::stat(base.directory()).map_err(Error::doing("reading the metadata of the base directory"))?;
        if stat.deleted { Err(Error::NotFound) } else { Ok(base) }
    }

    /// Resolves a path, symlinks followed.
    ///
    /// # Errors
    /// [`Error::Denied`] if it leaves the base directory, else why it cannot be resolved. A missing last
    /// component is not an error.
    pub(super) fn locate(&self, path: &RelPath) -> Result<Location, Error> {
        let base = self.base()?;
        let found = match base.resolver {
            Resolver::Openat2 => locate_with_openat2(base, path),
            Resolver::Walk => None,
        };
        let location = found.map_or_else(|| walk::locate(base, path), Ok);
        // The compatible contract resolves the missing part of a path by its text. So `missing/../../x`
        // leaves.
        let is_missing = match &location {
            Ok(location) => location.object.is_none(),
            Err(error) => error.is_about_the_path(),
        };
        if is_missing && path.leaves_lexically() && !base.is_root { Err(Error::Denied) } else { location }
    }
}

impl Base {
    fn open(path: &Path, preferred: Resolver) -> Result<Self, Error> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::NotFound)?;
        let (directory, stat) = open_and_stat(&path).map_err(Error::doing("opening the base directory"))?;
        let (_, root) = open_and_stat(c"/").map_err(Error::doing("opening the root directory"))?;
        // If even this fails (ENOSYS, or EPERM or EINVAL by a seccomp filter), openat2 cannot be used at all.
        // An error for a later path concerns only that path.
        let resolver = match fs::open_beneath(directory.as_fd(), c".") {
            Ok(_) => preferred,
            Err(_) => Resolver::Walk,
        };
        let (identity, is_root) = (stat.identity, stat.identity == root.identity);
        Ok(Self { directory: Arc::new(directory), identity, is_root, resolver })
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

pub(super) fn open_and_stat(path: &CStr) -> io::Result<(OwnedFd, Stat)> {
    let directory = fs::open_directory(path)?;
    let stat = fs::stat(directory.as_fd())?;
    Ok((directory, stat))
}

/// Opens the directory of the last component with openat2(2). `None` if the walk must decide.
fn locate_with_openat2(base: &Base, path: &RelPath) -> Option<Location> {
    /// openat2 fails with `EAGAIN` if any rename on the machine might have interfered with a `..`.
    const ATTEMPTS: usize = 8;
    let (parents, name) = path.split_file_name().unwrap_or((path.components(), c"."));
    let parents = join(parents)?;
    let opened = (0..ATTEMPTS).find_map(|_| match fs::open_beneath(base.directory(), &parents) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        opened => Some(opened),
    });
    let directory = opened?.ok()?;
    let object = match fs::stat_entry(directory.as_fd(), name) {
        Ok(stat) if stat.kind == Kind::Symlink => return None,
        Ok(stat) => Some(stat),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    Some(Location { directory, name: name.to_owned(), object })
}

fn join(components: &[CString]) -> Option<CString> {
    let components: Vec<&[u8]> = components.iter().map(|component| component.to_bytes()).collect();
    let path = if components.is_empty() { b".".to_vec() } else { components.join(&b'/') };
    CString::new(path).ok()
}
