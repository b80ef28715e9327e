//! How the processes of one execution are told from all others: by a random value in their environment, and by a number
//! that the kernel hands on where the environment is wiped.
//!
//! The number is the core dump filter (core(5)): nine bits of a process that fork and exec keep, that anybody may read
//! in `/proc`, and that mean nothing as long as no core is dumped. The filter of a command is the one that the server
//! has at that moment, so setting it and starting the command are done under one lock. Numbers are used in turn, and none twice at
//! once; a number alone convicts nobody (see [`tree`](super::tree)).

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The variable in which every process that a command starts finds the id of its execution.
pub(super) const VARIABLE: &str = "SANDBOX_EXECUTION_ID";

/// One execution's.
#[derive(Debug)]
pub(super) struct Mark {
    variable: CString,
    number: Option<Number>,
}

impl Mark {
    /// `SANDBOX_EXECUTION_ID=…`
    pub(super) fn variable(&self) -> &CStr {
        &self.variable
    }

    /// The core dump filter of this execution's processes, where the kernel has one.
    pub(super) fn filter(&self) -> Option<u16> {
        self.number.as_ref().map(|number| number.filter)
    }
}

/// A core dump filter that nobody else who runs has.
#[derive(Debug)]
struct Number {
    filter: u16,
    taken: Arc<Mutex<HashSet<u16>>>,
}

impl Drop for Number {
    fn drop(&mut self) {
        locked(&self.taken).remove(&self.filter);
    }
}

/// Numbers only: no panic can leave them half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives out marks.
#[derive(Debug)]
pub(super) struct Marks {
    /// `None` where `/proc` is missing, or the kernel dumps no core.
    filter: Option<Filter>,
    /// Commands, and only commands, are given up first when memory runs out.
    oom: Option<OomScore>,
    /// The last number.
    turn: Mutex<u16>,
    taken: Arc<Mutex<HashSet<u16>>>,
}

#[derive(Debug)]
struct Filter {
    file: File,
    /// What processes have that are none of ours.
    common: u16,
}

/// One more than the largest filter.
const FILTERS: u16 = 1 << 9;

impl Marks {
    pub(super) fn new() -> Self {
        Self {
            filter: Filter::open().ok(),
            oom: OomScore::open().ok(),
            turn: Mutex::new(0),
            taken: Arc::default(),
        }
    }

    /// Calls `start` while whatever it starts inherits a new mark, which it is given too. As long as the mark lives, no
    /// other has its number.
    ///
    /// # Errors
    /// No random bytes (getrandom(2)), or whatever `start` reports.
    pub(super) fn start<T>(&self, start: impl FnOnce(&Mark) -> T) -> io::Result<(T, Mark)> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::from)?;
        let mut variable = String::with_capacity(VARIABLE.len() + "=".len() + 2 * random.len() + "\0".len());
        write!(variable, "{VARIABLE}={:032x}", u128::from_ne_bytes(random)).map_err(io::Error::other)?;
        let variable = CString::new(variable)?;
        let mut turn = locked(&self.turn);
        let number = self.filter.as_ref().and_then(|filter| filter.next(&mut turn, &self.taken));
        let _raised = self.oom.as_ref().map(OomScore::raise);
        let mark = Mark { variable, number };
        Ok((start(&mark), mark))
    }
}

impl Filter {
    fn open() -> io::Result<Self> {
        let path = "/proc/self/coredump_filter";
        let common = std::fs::read_to_string(path)?;
        let common = u16::from_str_radix(common.trim(), 16).map_err(io::Error::other)?;
        Ok(Self { file: OpenOptions::new().write(true).open(path)?, common })
    }

    /// The next that is not taken. Where all are, or it can not be set, there is none, and what is started inherits what
    /// processes have that are none of ours.
    fn next(&self, turn: &mut u16, taken: &Arc<Mutex<HashSet<u16>>>) -> Option<Number> {
        let mut numbers = locked(taken);
        let is_free = |filter: &u16| *filter != self.common && !numbers.contains(filter);
        let free = (1..=FILTERS).map(|step| (*turn + step) % FILTERS).find(is_free);
        let filter = free.unwrap_or(self.common);
        self.file.write_at(filter.to_string().as_bytes(), 0).ok()?;
        *turn = free?;
        numbers.insert(filter);
        Some(Number { filter, taken: Arc::clone(taken) })
    }
}

/// How willingly the kernel kills this process when memory runs out (proc_pid_oom_score_adj(5)). Commands inherit it, so
/// it is raised while one is started. Raising needs no privilege, nor does going back.
#[derive(Debug)]
struct OomScore {
    file: File,
    own: String,
    raised: String,
}

/// In thousandths of the memory: enough that a small command goes before a server that holds output.
const OOM_SCORE_MORE: i32 = 300;
const OOM_SCORE_MOST: i32 = 1000;

impl OomScore {
    fn open() -> io::Result<Self> {
        let path = "/proc/self/oom_score_adj";
        let own: i32 = std::fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)?;
        let raised = (own + OOM_SCORE_MORE).min(OOM_SCORE_MOST).to_string();
        Ok(Self { file: OpenOptions::new().write(true).open(path)?, own: own.to_string(), raised })
    }

    /// Until the guard is dropped.
    fn raise(&self) -> Raised<'_> {
        self.set(&self.raised);
        Raised(self)
    }

    fn set(&self, value: &str) {
        // Best effort: where the kernel refuses, the server is as likely a victim as its commands.
        let _refused = self.file.write_at(value.as_bytes(), 0);
    }
}

struct Raised<'a>(&'a OomScore);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.set(&self.0.own);
    }
}
