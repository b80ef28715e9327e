//! Resolves a path component by component, as path_resolution(7) describes it. The kernel never follows a
//! symlink.
//!
//! Invariant: each directory on the stack was opened from the one below it, by one name that was not a
//! symlink, and `..` pops one. So the walk cannot end above the base directory, even if files are renamed or
//! replaced meanwhile.
//!
//! A symlink with an absolute target leads outside, to `/`. The walk continues there, and is inside again as
//! soon as it reaches the base directory itself (by device and inode). Only a location inside is returned;
//! every error outside becomes [`Error::Denied`], so that the response does not disclose what exists there.
//!
//! Everything is opened with `O_PATH`, so nothing blocks or has side effects.

use super::root::{Base, Location, open_and_stat};
use super::{Error, RelPath};
use crate::sys::errno;
use crate::sys::fs::{self, Identity, Kind, Stat};
use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel's limit (path_resolution(7)).
const MAX_SYMLINKS: usize = 40;

/// Each directory on the stack holds a descriptor until the walk ends. openat2 has no such limit.
const MAX_DEPTH: usize = 256;

pub(super) fn locate(base: &Base, path: &RelPath) -> Result<Location, Error> {
    let mut walk = Walk::start(base)?;
    let end = walk.follow(path);
    if walk.is_inside {
        let (name, object) = end?;
        return Ok(Location { directory: walk.here, name, object });
    }
    match end {
        // A shortage of descriptors, for example. This discloses nothing about the outside.
        Err(error) if !error.is_about_the_path() => Err(error),
        _ => Err(Error::Denied),
    }
}

struct Walk<'b> {
    base: &'b Base,
    /// Whether the lowest directory on the stack is the base directory. Otherwise it is `/`.
    is_inside: bool,
    below: Vec<OwnedFd>,
    here: OwnedFd,
}

impl<'b> Walk<'b> {
    fn start(base: &'b Base) -> Result<Self, Error> {
        Ok(Self { base, is_inside: true, below: Vec::new(), here: duplicate(base)? })
    }

    /// Moves to the directory that the path names, or to the parent of its last component. Returns that
    /// component, or else `.`, and its metadata.
    fn follow(&mut self, path: &RelPath) -> Result<(CString, Option<Stat>), Error> {
        let mut pending: Vec<CString> = path.components().iter().rev().cloned().collect();
        let mut symlinks = 0;
        while let Some(name) = pending.pop() {
            match name.to_bytes() {
                b"." => continue,
                b".." => {
                    self.leave()?;
                    continue;
                }
                _ => {}
            }
            let object = match fs::open_entry(self.here.as_fd(), &name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && pending.is_empty() => {
                    return Ok((name, None));
                }
                opened => opened.map_err(Error::doing(RESOLVING))?,
            };
            let stat = fs::stat(object.as_fd()).map_err(Error::doing(RESOLVING))?;
            match stat.kind {
                Kind::Directory => self.enter(object, stat.identity)?,
                Kind::Symlink if symlinks == MAX_SYMLINKS => return Err(Error::bad_path(errno::ELOOP)),
                Kind::Symlink => {
                    symlinks += 1;
                    let target = self.follow_symlink(object.as_fd())?;
                    pending.extend(target.components().iter().rev().cloned());
                }
                Kind::File | Kind::Other if pending.is_empty() => return Ok((name, Some(stat))),
                Kind::File | Kind::Other => return Err(Error::NotADirectory),
            }
        }
        let stat = fs::stat(self.here.as_fd()).map_err(Error::doing(RESOLVING))?;
        Ok((c".".to_owned(), Some(stat)))
    }

    fn enter(&mut self, directory: OwnedFd, identity: Identity) -> Result<(), Error> {
        if !self.is_inside && identity == self.base.identity {
            *self = Walk::start(self.base)?;
            return Ok(());
        }
        if self.below.len() == MAX_DEPTH {
            return Err(Error::bad_path(errno::ENAMETOOLONG));
        }
        self.below.push(mem::replace(&mut self.here, directory));
        Ok(())
    }

    fn leave(&mut self) -> Result<(), Error> {
        match self.below.pop() {
            Some(directory) => self.here = directory,
            None if self.is_inside && !self.base.is_root => return Err(Error::Denied),
            None => {} // `/..` is `/`.
        }
        Ok(())
    }

    /// Moves to the directory from which a symlink's target is resolved, and returns the target relative to
    /// it.
    fn follow_symlink(&mut self, link: BorrowedFd<'_>) -> Result<RelPath, Error> {
        let target = fs::read_link(link).map_err(Error::doing(RESOLVING))?;
        let is_absolute = target.starts_with(b"/");
        // The text of a magic link only describes its target: `/app/old (deleted)`, `pipe:[4711]` (proc(5)).
        let may_be_magic = is_absolute || target.contains(&b':');
        if may_be_magic && fs::is_in_procfs(link).map_err(Error::doing(RESOLVING))? {
            return Err(Error::Denied);
        }
        if is_absolute {
            let (root, stat) = open_and_stat(c"/").map_err(Error::doing(RESOLVING))?;
            self.is_inside = stat.identity == self.base.identity;
            self.below.clear();
            self.here = root;
        }
        RelPath::parse(&target)
    }
}

const RESOLVING: &str = "resolving the path";

fn duplicate(base: &Base) -> Result<OwnedFd, Error> {
    base.directory().try_clone_to_owned().map_err(Error::doing(RESOLVING))
}
