//! Follows a path component by component, as path_resolution(7) describes it, and never lets the kernel follow a link.
//!
//! Invariant: each directory on the stack was opened from the one below it, by one name that was not a link, and
//! `..` takes one off. So whatever is renamed or replaced meanwhile, the walk cannot come out above the base directory.
//!
//! A link with an absolute target leads outside, to `/`. The walk goes on there, and is inside again at the moment it
//! comes to the base directory itself (by device and inode). Only what is found inside is given out; whatever
//! goes wrong outside is [`Error::Denied`], so that the answer does not tell what exists there.
//!
//! It opens everything with `O_PATH` only, so nothing is touched or waited for.

use super::root::{Base, Place, open_and_stat};
use super::{Error, RelPath};
use crate::sys::errno;
use crate::sys::fs::{self, Identity, Kind, Stat};
use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// As the kernel's limit (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Each directory on the way costs a descriptor while the walk lasts. openat2 has no such limit.
const MAX_DEPTH: usize = 256;

pub(super) fn locate(base: &Base, path: &RelPath) -> Result<Place, Error> {
    let mut walk = Walk::start(base)?;
    let end = walk.follow(path);
    if walk.inside {
        let (name, object) = end?;
        return Ok(Place { directory: walk.here, name, object });
    }
    match end {
        // Out of descriptors, for one: this says nothing about what is outside.
        Err(error) if !error.is_about_the_path() => Err(error),
        _ => Err(Error::Denied),
    }
}

struct Walk<'b> {
    base: &'b Base,
    /// Whether the lowest directory on the stack is the base directory. Otherwise it is `/`.
    inside: bool,
    below: Vec<OwnedFd>,
    here: OwnedFd,
}

impl<'b> Walk<'b> {
    fn start(base: &'b Base) -> Result<Walk<'b>, Error> {
        Ok(Walk { base, inside: true, below: Vec::new(), here: duplicate(base)? })
    }

    /// Goes to the directory that the path leads to, or that has the last component as an entry.
    /// Gives that component, or else `.`, and what it is.
    fn follow(&mut self, path: &RelPath) -> Result<(CString, Option<Stat>), Error> {
        let mut todo: Vec<CString> = path.components().iter().rev().cloned().collect();
        let mut links = 0;
        while let Some(name) = todo.pop() {
            match name.to_bytes() {
                b"." => continue,
                b".." => {
                    self.leave()?;
                    continue;
                }
                _ => {}
            }
            let object = match fs::open_entry(self.here.as_fd(), &name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && todo.is_empty() => {
                    return Ok((name, None));
                }
                opened => opened.map_err(Error::doing(FOLLOWING))?,
            };
            let stat = fs::stat(object.as_fd()).map_err(Error::doing(FOLLOWING))?;
            match stat.kind {
                Kind::Directory => self.enter(object, stat.identity)?,
                Kind::Symlink if links == MAX_LINKS => return Err(Error::bad_path(errno::ELOOP)),
                Kind::Symlink => {
                    links += 1;
                    let target = self.take_link(object.as_fd())?;
                    todo.extend(target.components().iter().rev().cloned());
                }
                Kind::File | Kind::Other if todo.is_empty() => return Ok((name, Some(stat))),
                Kind::File | Kind::Other => return Err(Error::NotADirectory),
            }
        }
        let stat = fs::stat(self.here.as_fd()).map_err(Error::doing(FOLLOWING))?;
        Ok((c".".to_owned(), Some(stat)))
    }

    fn enter(&mut self, directory: OwnedFd, identity: Identity) -> Result<(), Error> {
        if !self.inside && identity == self.base.identity {
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
            None if self.inside && !self.base.is_root => return Err(Error::Denied),
            None => {} // `/..` is `/`.
        }
        Ok(())
    }

    /// Goes to where a link's target starts from, and gives the rest of the target.
    fn take_link(&mut self, link: BorrowedFd<'_>) -> Result<RelPath, Error> {
        let target = fs::read_link(link).map_err(Error::doing(FOLLOWING))?;
        let absolute = target.starts_with(b"/");
        // A magic link's text only describes what it leads to: `/app/old (deleted)`, `pipe:[4711]` (proc(5)).
        let described = absolute || target.contains(&b':');
        if described && fs::is_in_procfs(link).map_err(Error::doing(FOLLOWING))? {
            return Err(Error::Denied);
        }
        if absolute {
            let (root, stat) = open_and_stat(c"/").map_err(Error::doing(FOLLOWING))?;
            self.inside = stat.identity == self.base.identity;
            self.below.clear();
            self.here = root;
        }
        RelPath::parse(&target)
    }
}

const FOLLOWING: &str = "following the path";

fn duplicate(base: &Base) -> Result<OwnedFd, Error> {
    base.directory().try_clone_to_owned().map_err(Error::doing(FOLLOWING))
}
