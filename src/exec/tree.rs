//! Finds and kills all that one execution has started, also what left its group: the process tree below the leader,
//! whatever has the execution's [`Mark`], and everything below those.
//!
//! Nobody else is ever hit. A process is a victim only by what `/proc` says of it, and is looked at once more right before
//! it is killed: its pid may be somebody else's by then. What can still escape is told in `docs/THREATS.md`.

use super::mark::{Mark, VARIABLE};
use crate::deadline::Deadline;
use crate::sys::process::{Pid, Signal, kill_group, kill_if, send_to_group};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// How long the search goes on while it finds more. One pass takes a millisecond for a hundred processes.
const LONGEST_SEARCH: Duration = Duration::from_millis(400);

/// Between two passes, for those that were killed to end.
const PAUSE: Duration = Duration::from_millis(1);

/// Kills until a pass finds none alive. The leader must not be reaped yet.
pub(super) fn kill_tree(leader: Pid, mark: &Mark) {
    // What stands still starts nothing new and does not end, so everything below it can be found through it.
    send_to_group(leader, Signal::STOP);
    let until = Deadline::within(LONGEST_SEARCH);
    loop {
        let all = processes();
        let victims = victims(&all, leader, mark);
        kill_group(leader);
        let living: Vec<&Process> = victims.into_iter().filter(|victim| !victim.is_dead).collect();
        kill(&all, &living);
        if living.is_empty() || until.has_passed() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// What `/proc/PID/stat` says (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: Option<Pid>,
    group: Option<Pid>,
    /// In clock ticks since boot. Together with the pid it names a process for good.
    started: u64,
    /// A zombie: it has ended, and waits to be reaped.
    is_dead: bool,
}

/// All that can be seen.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| Pid::new(entry.file_name().to_str()?.parse().ok()?));
    pids.filter_map(process).collect()
}

fn process(pid: Pid) -> Option<Process> {
    let stat = fs::read(format!("/proc/{}/stat", pid.number())).ok()?;
    // The name, in parentheses, may itself have parentheses and spaces, and need not be text.
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    parse(pid, fields)
}

/// The fields after the name.
fn parse(pid: Pid, fields: &str) -> Option<Process> {
    let mut fields = fields.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let parent = Pid::new(fields.next()?.parse().ok()?);
    let group = Pid::new(fields.next()?.parse().ok()?);
    let started = fields.nth(16)?.parse().ok()?;
    Some(Process { pid, parent, group, started, is_dead })
}

/// Those that belong to the execution, the leader among them.
fn victims<'a>(all: &'a [Process], leader: Pid, mark: &Mark) -> Vec<&'a Process> {
    let Some(root) = all.iter().find(|process| process.pid == leader) else { return Vec::new() };
    let mut below: HashMap<Pid, Vec<&Process>> = HashMap::new();
    for process in all {
        if let Some(parent) = process.parent {
            below.entry(parent).or_default().push(process);
        }
    }
    let is_marked = |process: &&Process| {
        let is_candidate = !process.is_dead && process.started >= root.started;
        is_candidate && has_mark(process, mark)
    };
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut next: Vec<&Process> = all.iter().filter(is_marked).chain([root]).collect();
    while let Some(process) = next.pop() {
        if seen.insert(process.pid) {
            found.push(process);
            next.extend(below.get(&process.pid).into_iter().flatten());
        }
    }
    found
}

/// Whether the process has the execution's id in its environment; or, when it has no id at all and is an orphan of ours,
/// the execution's number. The number of any other process means nothing: another server gives out the same ones.
fn has_mark(process: &Process, mark: &Mark) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", process.pid.number())).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    let is_id = |variable: &&[u8]| {
        variable.strip_prefix(VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    };
    match variables.find(is_id) {
        Some(variable) => variable == mark.variable().to_bytes(),
        None => is_orphan(process) && mark.filter().is_some() && mark.filter() == filter(process.pid),
    }
}

/// Orphans of commands become children of the process above the server.
fn is_orphan(process: &Process) -> bool {
    let is_server = process.pid.number().unsigned_abs() == std::process::id();
    let above = std::os::unix::process::parent_id();
    !is_server && process.parent.is_some_and(|parent| parent.number().unsigned_abs() == above)
}

fn filter(pid: Pid) -> Option<u16> {
    let filter = fs::read_to_string(format!("/proc/{}/coredump_filter", pid.number())).ok()?;
    u16::from_str_radix(filter.trim(), 16).ok()
}

/// Kills these, by whole groups where a group has nobody else: then those that fork meanwhile are hit too.
fn kill(all: &[Process], victims: &[&Process]) {
    let is_victim = |process: &Process| victims.iter().any(|victim| victim.pid == process.pid);
    let mut others = HashSet::new();
    others.extend(
        all.iter().filter(|process| !process.is_dead && !is_victim(process)).map(|process| process.group),
    );
    for victim in victims {
        let is_unchanged = || {
            process(victim.pid).is_some_and(|now| now.started == victim.started && now.group == victim.group)
        };
        match victim.group {
            Some(group) if !others.contains(&victim.group) => {
                if is_unchanged() {
                    kill_group(group);
                }
            }
            _ => kill_if(victim.pid, is_unchanged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_from_its_stat_line() {
        let pid = Pid::new(7).unwrap();
        let fields = " S 1 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 1234 99 100";
        let expected =
            Process { pid, parent: Pid::new(1), group: Pid::new(5), started: 1234, is_dead: false };
        assert_eq!(parse(pid, fields), Some(expected));
        assert!(parse(pid, " Z 1 5").is_none());
    }

    #[test]
    fn this_process_is_seen() {
        let own = i32::try_from(std::process::id()).unwrap();
        let all = processes();
        let this = all.iter().find(|process| process.pid.number() == own).unwrap();
        assert!(!this.is_dead && this.started > 0 && this.parent.is_some());
    }
}
