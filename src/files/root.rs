//! The base directory, open: everything that is opened below it is found from its descriptor.
//!
//! It is **pinned** when it is first opened: whatever its path names later, the same directory is served (CF-15).
//! If that directory is deleted, nothing is found any more, even when a new one appears under the path.
//! A base directory that is missing at the start is opened at the first use after it has appeared.
//!
//! A path is followed in two ways with one outcome. openat2(2) is asked first, and only what it finds is believed:
//! whatever it refuses, for whatever reason, is asked of the [`walk`], which alone says why something
//! cannot be had. So an absolute link that stays inside works on both, `..` at the root of the file system too, and a
//! kernel or a seccomp filter without openat2 costs some speed and nothing else (CF-07).

use super::walk;
use super::{Error, RelPath};
use crate::sys::fs::{self, Identity, Kind, Stat};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    wanted: Resolver,
    base: OnceLock<Base>,
}

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
    /// It is the root of the file system: `..` at it stays there, and no path leaves it (CF-12).
    pub(super) is_root: bool,
    pub(super) resolver: Resolver,
}

/// Where a path leads: an entry of a directory inside the base directory. The entry is not a link, and what follows
/// must not follow it, should it have become one.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    /// `.` if the path leads to `directory` itself.
    pub(super) name: CString,
    /// What the entry was when it was looked at; `None` if it was missing.
    pub(super) object: Option<Stat>,
}

impl Root {
    /// The directory need not exist yet, and its path may be a link.
    pub fn new(path: PathBuf) -> Root {
        Root::with_resolver(path, Resolver::Openat2)
    }

    pub(super) fn with_resolver(path: PathBuf, wanted: Resolver) -> Root {
        let root = Root { path, wanted, base: OnceLock::new() };
        // An error now is not one yet: the next use tries again, and reports it.
        let _ = root.base();
        root
    }

    /// The path it was opened by; what that names now may be something else.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the directory has been found and pinned.
    pub fn is_open(&self) -> bool {
        self.base.get().is_some()
    }

    /// The directory itself, for fchdir(2) (it is an `O_PATH` descriptor).
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is still missing or has been deleted (EC-07), and others when it cannot be opened.
    pub fn directory(&self) -> Result<Arc<OwnedFd>, Error> {
        Ok(Arc::clone(&self.base()?.directory))
    }

    pub(super) fn base(&self) -> Result<&Base, Error> {
        let base = match self.base.get() {
            Some(base) => base,
            None => {
                let opened = Base::open(&self.path, self.wanted)?;
                self.base.get_or_init(|| opened)
            }
        };
        let stat = fs::stat(base.directory()).map_err(Error::doing("looking at the base directory"))?;
        if stat.deleted { Err(Error::NotFound) } else { Ok(base) }
    }

    /// Follows a path to its end.
    ///
    /// # Errors
    /// [`Error::Denied`] if it leaves the base directory, else whatever is wrong with it. A missing last component
    /// is no error.
    pub(super) fn locate(&self, path: &RelPath) -> Result<Place, Error> {
        let base = self.base()?;
        let found = match base.resolver {
            Resolver::Openat2 => locate_at_once(base, path),
            Resolver::Walk => None,
        };
        let place = found.map_or_else(|| walk::locate(base, path), Ok);
        // The reference takes the part of a path that does not exist by its text. So `missing/../../x` leaves.
        let missing = match &place {
            Ok(place) => place.object.is_none(),
            Err(error) => error.is_about_the_path(),
        };
        if missing && path.leaves_lexically() && !base.is_root { Err(Error::Denied) } else { place }
    }
}

impl Base {
    fn open(path: &Path, wanted: Resolver) -> Result<Base, Error> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::NotFound)?;
        let (directory, stat) = open_and_stat(&path).map_err(Error::doing("opening the base directory"))?;
        let (_, root) = open_and_stat(c"/").map_err(Error::doing("opening the root directory"))?;
        // Where even this fails (ENOSYS, EPERM or EINVAL by a seccomp filter), openat2 cannot be used at all.
        // An error on a later path is about that path, and changes nothing.
        let resolver = match fs::open_beneath(directory.as_fd(), c".") {
            Ok(_) => wanted,
            Err(_) => Resolver::Walk,
        };
        let (identity, is_root) = (stat.identity, stat.identity == root.identity);
        Ok(Base { directory: Arc::new(directory), identity, is_root, resolver })
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

/// Has the kernel open the directory that the last component is in. `None`: ask the walk.
fn locate_at_once(base: &Base, path: &RelPath) -> Option<Place> {
    /// openat2 gives up with `EAGAIN` when any rename on the machine might have disturbed a `..`.
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
    Some(Place { directory, name: name.to_owned(), object })
}

fn join(components: &[CString]) -> Option<CString> {
    let components: Vec<&[u8]> = components.iter().map(|component| component.to_bytes()).collect();
    let path = if components.is_empty() { b".".to_vec() } else { components.join(&b'/') };
    CString::new(path).ok()
}
