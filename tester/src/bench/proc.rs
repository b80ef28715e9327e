//! CPU time and memory of processes, from /proc, see proc(5).

use std::collections::BTreeSet;
use std::fs;

/// USER_HZ, which is 100 on every architecture that Linux supports today.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process, identified by its start time in case its pid is reused.
#[derive(Clone, Copy)]
pub(super) struct Process {
    pub(super) pid: u32,
    started_ticks: u64,
}

impl Process {
    pub(super) fn is_running(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.started_ticks == self.started_ticks && stat.state != "Z")
    }
}

/// A process and its visible descendants.
pub(super) fn process_tree(pid: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<(u32, Stat)> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let mut known = BTreeSet::from([pid]);
    // The pid of a child can be lower than that of its parent; each pass finds at least one more generation.
    while all.iter().filter(|(pid, stat)| known.contains(&stat.parent) && known.insert(*pid)).count() > 0 {}
    let members = all.iter().filter(|(pid, _)| known.contains(pid));
    members.map(|(pid, stat)| Process { pid: *pid, started_ticks: stat.started_ticks }).collect()
}

struct Stat {
    state: String,
    parent: u32,
    /// User and kernel mode, without the time of reaped children.
    cpu_ticks: u64,
    started_ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the name in parentheses, which may contain any character.
    let (_, after_name) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = after_name.split(' ').collect();
    // proc_pid_stat(5) numbers the fields from 1; the first one here is number 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first().map(|state| (*state).to_owned())?,
        parent: u32::try_from(number(4)?).ok()?,
        cpu_ticks: number(14)? + number(15)?,
        started_ticks: number(22)?,
    })
}

/// `None` if there is no process or one cannot be read.
fn sum(processes: &[Process], of: impl Fn(u32) -> Option<u64>) -> Option<u64> {
    if processes.is_empty() {
        return None;
    }
    processes.iter().map(|process| of(process.pid)).sum()
}

/// The CPU time used since the processes started.
pub(super) fn cpu_seconds(processes: &[Process]) -> Option<f64> {
    let ticks = sum(processes, |pid| stat(pid).map(|stat| stat.cpu_ticks))?;
    Some(ticks as f64 / TICKS_PER_SECOND)
}

pub(super) fn resident_bytes(processes: &[Process]) -> Option<u64> {
    sum(processes, |pid| field(pid, "status", "VmRSS:"))
}

/// Each shared page is divided among the processes that share it.
pub(super) fn proportional_bytes(processes: &[Process]) -> Option<u64> {
    sum(processes, |pid| field(pid, "smaps_rollup", "Pss:"))
}

pub(super) fn peak_bytes(processes: &[Process]) -> Option<u64> {
    sum(processes, |pid| field(pid, "status", "VmHWM:"))
}

pub(super) fn reset_peak(processes: &[Process]) -> Option<()> {
    processes.iter().try_for_each(|process| fs::write(format!("/proc/{}/clear_refs", process.pid), "5").ok())
}

fn field(pid: u32, file: &str, name: &str) -> Option<u64> {
    parse_kib(&fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?, name)
}

/// The value in bytes.
fn parse_kib(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_in_a_name_do_not_shift_the_fields() {
        let fields = "S 7 2 2 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 1 0 5555 0 0";
        for name in ["a", "a b", "a) S 1 (b", ")"] {
            let stat = parse_stat(&format!("42 ({name}) {fields}\n")).unwrap();
            assert_eq!((stat.parent, stat.cpu_ticks, stat.started_ticks), (7, 33, 5555));
        }
        for text in
            ["", "42 (a)", "42 (a) S", "42 (a) S x 2 2 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 1 0 5555"]
        {
            assert!(parse_stat(text).is_none(), "{text}");
        }
    }

    #[test]
    fn memory_is_in_kibibytes() {
        let text = "Name:\ta\nVmHWM:\t    2048 kB\nPss:                   3 kB\nPss_Anon: 1 kB\n";
        assert_eq!(parse_kib(text, "VmHWM:"), Some(2 << 20));
        assert_eq!(parse_kib(text, "Pss:"), Some(3 << 10));
        assert_eq!(parse_kib(text, "VmRSS:"), None);
        assert_eq!(parse_kib("VmRSS: 3", "VmRSS:"), None);
    }
}
