//! Tags by which the processes of one execution are recognised: a random id in their environment, and a
//! number that the kernel passes on to descendants even if the environment is cleared.
//!
//! The number is the core dump filter (core(5)): nine bits of a process that survive fork and exec, that
//! every process may read in `/proc`, and that have no effect unless a core is dumped. A command inherits the
//! filter that the server has at the moment of the spawn, so setting the filter and spawning happen under one
//! lock. Numbers are used in turn, and never by two executions at once. A matching number alone is not
//! sufficient (see [`kill`](super::kill)).

use super::locked;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

/// The variable that holds the id of the execution.
pub(super) const VARIABLE: &str = "SANDBOX_EXECUTION_ID";

/// The tag of one execution.
#[derive(Debug)]
pub(super) struct Tag {
    variable: CString,
    number: Option<Number>,
}

impl Tag {
    /// `SANDBOX_EXECUTION_ID=…`
    pub(super) fn variable(&self) -> &CStr {
        &self.variable
    }

    /// The core dump filter of this execution's processes, where the kernel has one.
    pub(super) fn filter(&self) -> Option<u16> {
        self.number.as_ref().map(|number| number.filter)
    }
}

/// A core dump filter that no other running execution has.
#[derive(Debug)]
struct Number {
    filter: u16,
    in_use: Arc<Mutex<HashSet<u16>>>,
}

impl Drop for Number {
    fn drop(&mut self) {
        locked(&self.in_use).remove(&self.filter);
    }
}

/// Issues tags.
#[derive(Debug)]
pub(super) struct Tags {
    /// `None` where `/proc` is missing, or the kernel does not dump cores.
    filter: Option<Filter>,
    /// Makes commands, and only commands, the OOM killer's first choice.
    oom: Option<OomScore>,
    last: Mutex<u16>,
    in_use: Arc<Mutex<HashSet<u16>>>,
}

#[derive(Debug)]
struct Filter {
    file: File,
    /// The filter that the server was started with, which unrelated processes have too.
    inherited: u16,
}

/// One more than the largest filter.
const FILTERS: u16 = 1 << 9;

impl Tags {
    pub(super) fn new() -> Self {
        Self {
            filter: Filter::open().ok(),
            oom: OomScore::open().ok(),
            last: Mutex::new(0),
            in_use: Arc::default(),
        }
    }

    /// Calls `spawn`, whose process inherits the new tag. The number stays reserved while the tag lives.
    ///
    /// # Errors
    /// No random bytes (getrandom(2)). The result of `spawn` is passed through.
    pub(super) fn spawn_with<T>(&self, spawn: impl FnOnce(&Tag) -> T) -> io::Result<(T, Tag)> {
        let variable = new_variable()?;
        let mut last = locked(&self.last);
        let number = self.filter.as_ref().and_then(|filter| filter.next(&mut last, &self.in_use));
        let _raised = self.oom.as_ref().map(OomScore::raise);
        let tag = Tag { variable, number };
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

impl Filter {
    fn open() -> io::Result<Self> {
        let path = "/proc/self/coredump_filter";
        let inherited = std::fs::read_to_string(path)?;
        let inherited = u16::from_str_radix(inherited.trim(), 16).map_err(io::Error::other)?;
        Ok(Self { file: OpenOptions::new().write(true).open(path)?, inherited })
    }

    /// Sets the next free number. If all are in use, or it cannot be set, the command gets the inherited
    /// filter and has no number.
    fn next(&self, last: &mut u16, in_use: &Arc<Mutex<HashSet<u16>>>) -> Option<Number> {
        let mut numbers = locked(in_use);
        let is_free = |filter: &u16| *filter != self.inherited && !numbers.contains(filter);
        let free = (1..=FILTERS).map(|step| (*last + step) % FILTERS).find(is_free);
        let filter = free.unwrap_or(self.inherited);
        self.file.write_at(filter.to_string().as_bytes(), 0).ok()?;
        *last = free?;
        numbers.insert(filter);
        Some(Number { filter, in_use: Arc::clone(in_use) })
    }
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
