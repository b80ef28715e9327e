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
const LONGEST_SEARCH: Duration = Duration::from_millis(450);

/// Between two passes, for those that were killed to end.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the newest processes are watched where somebody was born and gone between two looks.
const WATCH: Duration = Duration::from_millis(3);

/// How many passes in a row may find nobody alive although somebody unknown was gone already. It may have been a link of a
/// chain in which each starts the next and ends; or one of the many commands that end by themselves.
const MOST_MISSES: usize = 60;

/// Kills until a pass finds none alive. The leader must not be reaped yet. Returns those that are children of this process
/// although nobody here has started them (clone(2), `CLONE_PARENT`): somebody must reap them.
pub(super) fn kill_tree(leader: Pid, mark: &Mark) -> HashSet<Pid> {
    // What stands still starts nothing new and does not end, so everything below it can be found through it.
    send_to_group(leader, Signal::STOP);
    let until = Deadline::within(LONGEST_SEARCH);
    let born = process(leader).map_or(0, |leader| leader.started);
    let is_marked = |process: &Process| process.started >= born && has_mark(process, mark);
    let (mut known, mut siblings) = (HashSet::new(), HashSet::new());
    let mut misses = 0;
    loop {
        let pids = pids();
        let all: Vec<Process> = pids.iter().copied().filter_map(process).filter(is_alive).collect();
        let living = victims(&all, leader, is_marked);
        kill_group(leader);
        kill(&all, &living);
        siblings.extend(living.iter().filter(|it| it.pid != leader && is_child(it)).map(|it| it.pid));
        let alive: HashSet<Pid> = all.iter().map(|process| process.pid).collect();
        let has_missed = pids.iter().any(|pid| !known.contains(pid) && !alive.contains(pid));
        known.extend(pids);
        misses = if has_missed && living.is_empty() { misses + 1 } else { 0 };
        if (living.is_empty() && !has_missed) || misses > MOST_MISSES || until.has_passed() {
            return siblings;
        }
        if has_missed { kill_newborn(is_marked) } else { std::thread::sleep(PAUSE) }
    }
}

/// A chain in which each starts the next and ends is faster than a pass, which looks at everybody. The number of the process
/// that was started last is known at once (proc_loadavg(5)), and it is hit as soon as it is seen.
fn kill_newborn(is_marked: impl Fn(&Process) -> bool) {
    let until = Deadline::within(WATCH);
    while !until.has_passed() {
        let Some(newest) = newest() else { return std::thread::sleep(PAUSE) };
        for seen in (newest - NEWBORN..=newest).rev().filter_map(Pid::new).filter_map(process) {
            if is_alive(&seen) && is_marked(&seen) {
                kill_if(seen.pid, || is_unchanged(&seen));
            }
        }
    }
}

/// How many are looked at: others start processes, too.
const NEWBORN: i32 = 4;

fn newest() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// What `/proc/PID/stat` says (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: Option<Pid>,
    group: Option<Pid>,
    /// In clock ticks since boot. Together with the pid it names a process for good.
    started: u64,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    /// Its first thread has ended, others have not: it says so little of itself as a dead one, and lives.
    Headless,
    /// A zombie: it has ended, and waits to be reaped.
    Dead,
}

/// All that can be seen.
fn pids() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| Pid::new(entry.file_name().to_str()?.parse().ok()?));
    pids.collect()
}

fn is_alive(process: &Process) -> bool {
    process.life != Life::Dead
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
    let has_ended = matches!(fields.next()?, "Z" | "X");
    let parent = Pid::new(fields.next()?.parse().ok()?);
    let group = Pid::new(fields.next()?.parse().ok()?);
    let threads: u32 = fields.nth(14)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    let life = match (has_ended, threads) {
        (false, _) => Life::Alive,
        (true, 0 | 1) => Life::Dead,
        (true, _) => Life::Headless,
    };
    Some(Process { pid, parent, group, started, life })
}

/// Those that belong to the execution, the leader among them: the marked, and all below.
fn victims(all: &[Process], leader: Pid, is_marked: impl Fn(&Process) -> bool) -> Vec<&Process> {
    let mut below: HashMap<Pid, Vec<&Process>> = HashMap::new();
    for process in all {
        if let Some(parent) = process.parent {
            below.entry(parent).or_default().push(process);
        }
    }
    let is_root = |process: &&Process| process.pid == leader || is_marked(process);
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut next: Vec<&Process> = all.iter().filter(is_root).collect();
    while let Some(process) = next.pop() {
        if seen.insert(process.pid) {
            found.push(process);
            next.extend(below.get(&process.pid).into_iter().flatten());
        }
    }
    found
}

/// Whether the process has the execution's id in its environment; or, when it has no id at all and none of its ancestors
/// can tell us more, the execution's number. The number of any other process means nothing: another server gives out the
/// same ones.
fn has_mark(process: &Process, mark: &Mark) -> bool {
    let environment = read(process, "environ").unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    let is_id = |variable: &&[u8]| {
        variable.strip_prefix(VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    };
    match variables.find(is_id) {
        Some(variable) => variable == mark.variable().to_bytes(),
        None => mark.filter().is_some_and(|number| has_number(process, number)),
    }
}

fn has_number(seen: &Process, number: u16) -> bool {
    if filter(seen) != Some(number) {
        return false;
    }
    // A link of a chain is an orphan as soon as the one before it has ended, and has itself ended a moment later.
    is_without_parent(seen)
        || match seen.parent.and_then(process).filter(is_alive) {
            Some(parent) => is_without_parent(&parent) && filter(&parent) == Some(number),
            None => process(seen.pid).is_some_and(|now| is_without_parent(&now)),
        }
}

/// Orphans of commands become children of the process above the server; siblings of a leader are children of the server.
/// So is every other leader, but no two that run have the same number.
fn is_without_parent(process: &Process) -> bool {
    (has_parent(process, std::os::unix::process::parent_id()) || is_child(process))
        && !is_thread_of_ours(process)
}

/// Threads have numbers like processes, one that was a process's a moment ago among them, and the server has the number of
/// the command that it started last.
fn is_thread_of_ours(process: &Process) -> bool {
    fs::exists(format!("/proc/self/task/{}", process.pid.number())).unwrap_or(true)
}

fn is_child(process: &Process) -> bool {
    has_parent(process, std::process::id())
}

fn has_parent(process: &Process, pid: u32) -> bool {
    process.parent.is_some_and(|parent| parent.number().unsigned_abs() == pid)
}

fn filter(process: &Process) -> Option<u16> {
    let filter = String::from_utf8(read(process, "coredump_filter")?).ok()?;
    u16::from_str_radix(filter.trim(), 16).ok()
}

/// What `/proc` says of a process, or of one of its threads that has not ended.
fn read(process: &Process, name: &str) -> Option<Vec<u8>> {
    let pid = process.pid.number();
    if process.life == Life::Alive {
        return fs::read(format!("/proc/{pid}/{name}")).ok();
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    threads.filter_map(|thread| fs::read(thread.path().join(name)).ok()).find(|text| !text.is_empty())
}

/// Kills these, by whole groups where a group has nobody else: then those that fork meanwhile are hit too.
fn kill(all: &[Process], victims: &[&Process]) {
    let is_victim = |process: &Process| victims.iter().any(|victim| victim.pid == process.pid);
    let mut others = HashSet::new();
    others.extend(all.iter().filter(|process| !is_victim(process)).map(|process| process.group));
    for victim in victims {
        match victim.group {
            Some(group) if !others.contains(&victim.group) => {
                if is_unchanged(victim) {
                    kill_group(group);
                }
            }
            _ => kill_if(victim.pid, || is_unchanged(victim)),
        }
    }
}

/// Whether its pid, and the number of its group, still mean what they did.
fn is_unchanged(seen: &Process) -> bool {
    process(seen.pid).is_some_and(|now| now.started == seen.started && now.group == seen.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_from_its_stat_line() {
        let pid = Pid::new(7).unwrap();
        let fields = " S 1 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 1234 99 100";
        let expected =
            |life| Some(Process { pid, parent: Pid::new(1), group: Pid::new(5), started: 1234, life });
        assert_eq!(parse(pid, fields), expected(Life::Alive));
        assert_eq!(parse(pid, &fields.replace('S', "Z")), expected(Life::Dead));
        let many_threads = fields.replace("20 0 1 0", "20 0 3 0");
        assert_eq!(parse(pid, &many_threads.replace('S', "Z")), expected(Life::Headless));
        assert!(parse(pid, " Z 1 5").is_none());
    }

    #[test]
    fn this_process_is_seen() {
        let own = i32::try_from(std::process::id()).unwrap();
        let all: Vec<Process> = pids().into_iter().filter_map(process).collect();
        let this = all.iter().find(|process| process.pid.number() == own).unwrap();
        assert!(this.life == Life::Alive && this.started > 0 && this.parent.is_some());
    }
}
