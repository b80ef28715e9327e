//! Tags by which the processes of one execution are recognised: a random id in their environment, and a
//! number that the kernel passes on to descendants even if the environment is cleared.
//!
//! The number is the limit of the resident set (`RLIMIT_RSS`), which has had no effect since Linux 2.4.30
//! (getrlimit(2)). Fork and exec inherit it, every process may read it in `/proc`, and no unprivileged
//! process can raise it. gVisor has it too. A command inherits the limit that the server has at the moment of
//! the spawn, so setting the limit and spawning happen under one lock. The limits count down, so none is used
//! twice. A matching number alone is not sufficient (see [`kill`](super::kill)).

use super::locked;
use crate::sys::prctl::{max_resident_set, set_max_resident_set};
use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

/// The variable that holds the id of the execution.
pub(super) const VARIABLE: &str = "SANDBOX_EXECUTION_ID";

/// The tag of one execution.
#[derive(Debug)]
pub(super) struct Tag {
    variable: CString,
    limit: Option<u64>,
}

impl Tag {
    /// `SANDBOX_EXECUTION_ID=…`
    pub(super) fn variable(&self) -> &CStr {
        &self.variable
    }

    /// The resident set limit of this execution's processes, in bytes. `None` if it could not be set.
    pub(super) fn limit(&self) -> Option<u64> {
        self.limit
    }
}

/// The first limit is one less. Far above any memory, in case a kernel enforces it.
const UNUSED_LIMIT: u64 = 1 << 50;

/// Whether a server may have issued this limit. A program hardly ever chooses one that large for itself.
pub(super) fn is_issued(limit: u64) -> bool {
    (UNUSED_LIMIT / 2..UNUSED_LIMIT).contains(&limit)
}

/// Issues tags.
#[derive(Debug)]
pub(super) struct Tags {
    /// Makes commands, and only commands, the OOM killer's first choice.
    oom: Option<OomScore>,
    last_limit: Mutex<u64>,
}

impl Tags {
    pub(super) fn new() -> Self {
        let last_limit = Mutex::new(max_resident_set().min(UNUSED_LIMIT));
        Self { oom: OomScore::open().ok(), last_limit }
    }

    /// Calls `spawn`, whose process inherits the new tag.
    ///
    /// # Errors
    /// No random bytes (getrandom(2)). The result of `spawn` is passed through.
    pub(super) fn spawn_with<T>(&self, spawn: impl FnOnce(&Tag) -> T) -> io::Result<(T, Tag)> {
        let variable = new_variable()?;
        let mut last = locked(&self.last_limit);
        let limit = last.checked_sub(1).filter(|limit| set_max_resident_set(*limit).is_ok());
        *last = limit.unwrap_or(*last);
        let _raised = self.oom.as_ref().map(OomScore::raise);
        let tag = Tag { variable, limit };
        Ok((spawn(&tag), tag))
    }
}

fn new_variable() -> io::Result<CString> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::from)?;
    let mut variable = String::with_capacity(VARIABLE.len() + "=".len() + 2 * random.len() + "\0".len());
    write!(variable, "{VARIABLE}={:032x}", u128::from_ne_bytes(random)).map_err(io::Error::other)?;
    Ok(CString::new(variable)?)
}

/// How readily the kernel kills this process when memory runs out (proc_pid_oom_score_adj(5)). Commands
/// inherit the score, so it is raised while one is spawned. Neither raising nor restoring it requires a
/// privilege.
#[derive(Debug)]
struct OomScore {
    file: File,
    own: String,
    raised: String,
}

/// In thousandths of the memory: enough that a small command is killed before a server that buffers output.
const OOM_SCORE_INCREASE: i32 = 300;
const OOM_SCORE_MAX: i32 = 1000;

impl OomScore {
    fn open() -> io::Result<Self> {
        let path = "/proc/self/oom_score_adj";
        let own: i32 = std::fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)?;
        let raised = (own + OOM_SCORE_INCREASE).min(OOM_SCORE_MAX).to_string();
        Ok(Self { file: OpenOptions::new().write(true).open(path)?, own: own.to_string(), raised })
    }

    /// Until the guard is dropped.
    fn raise(&self) -> Raised<'_> {
        self.set(&self.raised);
        Raised(self)
    }

    fn set(&self, value: &str) {
        // Best effort: where the kernel refuses, the server is as likely to be killed as its commands.
        let _refused = self.file.write_at(value.as_bytes(), 0);
    }
}

struct Raised<'a>(&'a OomScore);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.set(&self.0.own);
    }
}
