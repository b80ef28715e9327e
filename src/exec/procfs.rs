//! Processes as `/proc` shows them (proc_pid_stat(5)).

use crate::sys::process::Pid;
use std::fs::{self, File};
use std::io::Read;

/// One process at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    /// In clock ticks since boot. Together with the pid it identifies a process.
    pub(super) started: u64,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Alive,
    /// Its first thread has ended and others have not: `/proc/PID` shows as little as for a zombie, but it
    /// runs.
    Headless,
    Zombie,
}

/// The pids of all visible processes.
pub(super) fn pids() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| Pid::new(entry.file_name().to_str()?.parse().ok()?));
    pids.collect()
}

/// The pid that was assigned last (proc_loadavg(5)).
pub(super) fn newest_pid() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// Threads have numbers like processes, which may have been those of a process a moment ago.
pub(super) fn is_own_thread(pid: Pid) -> bool {
    fs::exists(format!("/proc/self/task/{}", pid.number())).unwrap_or(true)
}

/// A short file of `/proc/PID`, in three system calls, which dominate the time of a search.
fn read_short(pid: Pid, name: &str) -> Option<Vec<u8>> {
    let mut content = [0; 4096];
    let length = File::open(format!("/proc/{}/{name}", pid.number())).ok()?.read(&mut content).ok()?;
    Some(content.get(..length)?.to_vec())
}

impl Process {
    pub(super) fn read(pid: Pid) -> Option<Self> {
        let stat = read_short(pid, "stat")?;
        // The name, in parentheses, may itself contain parentheses and spaces, and need not be UTF-8.
        let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
        Self::parse(pid, fields)
    }

    /// The fields after the name.
    fn parse(pid: Pid, fields: &str) -> Option<Self> {
        let mut fields = fields.split_ascii_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let parent = Pid::new(fields.next()?.parse().ok()?);
        let group = Pid::new(fields.next()?.parse().ok()?);
        let threads: u32 = fields.nth(14)?.parse().ok()?;
        let started = fields.nth(1)?.parse().ok()?;
        let state = match (has_ended, threads) {
            (false, _) => State::Alive,
            (true, 0 | 1) => State::Zombie,
            (true, _) => State::Headless,
        };
        Some(Self { pid, parent, group, started, state })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.state != State::Zombie
    }

    /// Whether the pid, and the number of the process group, still refer to the same process and group.
    pub(super) fn is_unchanged(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.started == self.started && now.group == self.group)
    }

    pub(super) fn has_parent(&self, pid: u32) -> bool {
        self.parent.is_some_and(|parent| parent.number().unsigned_abs() == pid)
    }

    /// The hard limit `RLIMIT_RSS`, in bytes. `None` if it is unlimited.
    pub(super) fn max_resident_set(&self) -> Option<u64> {
        let limits =
            if self.state == State::Alive { read_short(self.pid, "limits") } else { self.file("limits") };
        let limits = String::from_utf8(limits?).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max resident set"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// A file of `/proc/PID`, or of a thread that has not ended.
    pub(super) fn file(&self, name: &str) -> Option<Vec<u8>> {
        let pid = self.pid.number();
        if self.state == State::Alive {
            return fs::read(format!("/proc/{pid}/{name}")).ok();
        }
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let mut texts = threads.filter_map(|thread| fs::read(thread.path().join(name)).ok());
        texts.find(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_parsed() {
        let pid = Pid::new(7).unwrap();
        let fields = " S 1 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 1234 99 100";
        let expected =
            |state| Some(Process { pid, parent: Pid::new(1), group: Pid::new(5), started: 1234, state });
        assert_eq!(Process::parse(pid, fields), expected(State::Alive));
        assert_eq!(Process::parse(pid, &fields.replace('S', "Z")), expected(State::Zombie));
        let many_threads = fields.replace("20 0 1 0", "20 0 3 0");
        assert_eq!(Process::parse(pid, &many_threads.replace('S', "Z")), expected(State::Headless));
        assert!(Process::parse(pid, " Z 1 5").is_none());
    }

    #[test]
    fn this_process_is_visible() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut all = pids().into_iter().filter_map(Process::read);
        let this = all.find(|process| process.pid.number() == own).unwrap();
        assert!(this.state == State::Alive && this.started > 0 && this.parent.is_some());
    }
}
