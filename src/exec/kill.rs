//! Finds and kills all processes of one execution, including those that left its process group: the
//! descendants of the child, every process with the execution's [`Tag`], and the descendants of those.
//!
//! An unrelated process is never killed. A process is a target only if `/proc` identifies it, and it is
//! checked again right before it is killed, since its pid may have been reused. `docs/THREATS.md` says what
//! can still escape.

use super::procfs::{Process, is_own_thread, newest_pid, pids};
use super::tag::{Tag, is_issued};
use crate::deadline::Deadline;
use crate::sys::process::{Pid, kill_group, send_if, send_to_group};
use crate::sys::signals::Signal;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// How long the search goes on while it finds more. One pass takes a millisecond for a hundred processes.
const LONGEST_SEARCH: Duration = Duration::from_millis(450);

/// The pause between two passes, for killed processes to end.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the newest processes are watched after a pass in which a process appeared and vanished.
const WATCH: Duration = Duration::from_millis(3);

/// How many consecutive passes may find no target although an unknown process had vanished. It may have been
/// a link of a chain in which each process forks the next and exits, or an unrelated short command.
const MAX_MISSES: usize = 60;

/// How many of the newest processes are watched: unrelated processes are started too.
const NEWEST: i32 = 4;

/// Kills until a pass finds no target. The child must not be reaped yet. Returns targets that are children of
/// this process although it did not start them (clone(2), `CLONE_PARENT`); they must be reaped.
///
/// Targets are stopped first, and killed only when a pass finds no new one. A stopped process starts nothing,
/// keeps its children, and still counts towards a limit of processes. Each one that is killed while others
/// run makes room for another.
pub(super) fn kill_descendants(child: Pid, tag: &Tag) -> HashSet<Pid> {
    send_to_group(child, Signal::STOP);
    let until = Deadline::within(LONGEST_SEARCH);
    let started = Process::read(child).map_or(0, |child| child.started);
    let is_tagged = |process: &Process| process.started >= started && has_tag(process, tag);
    let (mut known, mut siblings, mut stopped) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut misses = 0;
    loop {
        let pids = pids();
        let all: Vec<Process> =
            pids.iter().copied().filter_map(Process::read).filter(Process::is_alive).collect();
        let targets = targets(&all, child, is_tagged);
        siblings.extend(targets.iter().filter(|it| it.pid != child && is_own_child(it)).map(|it| it.pid));
        let is_new = |it: &&Process| it.group != Some(child) && !stopped.contains(&(it.pid, it.started));
        let new: Vec<&Process> = targets.iter().copied().filter(is_new).collect();
        if !new.is_empty() && !until.has_passed() {
            send(Signal::STOP, &all, &targets, &new);
            stopped.extend(new.iter().map(|it| (it.pid, it.started)));
            continue;
        }
        kill_group(child);
        send(Signal::KILL, &all, &targets, &targets);
        let alive: HashSet<Pid> = all.iter().map(|process| process.pid).collect();
        let has_missed = pids.iter().any(|pid| !known.contains(pid) && !alive.contains(pid));
        known.extend(pids);
        misses = if has_missed && targets.is_empty() { misses + 1 } else { 0 };
        if (targets.is_empty() && !has_missed) || misses > MAX_MISSES || until.has_passed() {
            return siblings;
        }
        if has_missed { kill_newest(is_tagged) } else { std::thread::sleep(PAUSE) }
    }
}

/// A chain in which each process forks the next and exits is faster than a pass over all processes. The
/// newest pid is known at once, and the process is killed as soon as it is seen.
fn kill_newest(is_tagged: impl Fn(&Process) -> bool) {
    let until = Deadline::within(WATCH);
    while !until.has_passed() {
        let Some(newest) = newest_pid() else { return std::thread::sleep(PAUSE) };
        for seen in (newest - NEWEST..=newest).rev().filter_map(Pid::new).filter_map(Process::read) {
            if seen.is_alive() && is_tagged(&seen) {
                send_if(seen.pid, Signal::KILL, || seen.is_unchanged());
            }
        }
    }
}

/// The processes of the execution: the child, the tagged, and their descendants.
fn targets(all: &[Process], child: Pid, is_tagged: impl Fn(&Process) -> bool) -> Vec<&Process> {
    let mut children: HashMap<Pid, Vec<&Process>> = HashMap::new();
    for process in all {
        if let Some(parent) = process.parent {
            children.entry(parent).or_default().push(process);
        }
    }
    let is_root = |process: &&Process| process.pid == child || is_tagged(process);
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut next: Vec<&Process> = all.iter().filter(is_root).collect();
    while let Some(process) = next.pop() {
        if seen.insert(process.pid) {
            found.push(process);
            next.extend(children.get(&process.pid).into_iter().flatten());
        }
    }
    found
}

/// Whether the process belongs to the execution. Its limit must match; that alone proves nothing, since
/// another server issues the same numbers. The id in its environment decides if it has changed its limit.
fn has_tag(process: &Process, tag: &Tag) -> bool {
    match process.max_resident_set() {
        own if own.is_some() && own == tag.limit() => {
            has_known_ancestor(process, own) || has_id(process, tag)
        }
        // Of another execution, which may have restored a saved environment.
        Some(own) if is_issued(own) => false,
        _ => has_id(process, tag),
    }
}

fn has_id(process: &Process, tag: &Tag) -> bool {
    let environment = process.file("environ").unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == tag.variable().to_bytes())
}

/// A link of a chain becomes an orphan as soon as its parent has ended, and has itself ended a moment later.
fn has_known_ancestor(seen: &Process, limit: Option<u64>) -> bool {
    is_orphan(seen)
        || match seen.parent.and_then(Process::read).filter(Process::is_alive) {
            Some(parent) => is_orphan(&parent) && parent.max_resident_set() == limit,
            None => Process::read(seen.pid).is_some_and(|now| is_orphan(&now)),
        }
}

/// Orphans of commands become children of the init process; siblings of a child are children of the server.
/// So is every other child, but no two commands have the same limit.
fn is_orphan(process: &Process) -> bool {
    (process.has_parent(std::os::unix::process::parent_id()) || is_own_child(process))
        // The server and its threads have the limit of the command that was started last.
        && !is_own_thread(process.pid)
}

fn is_own_child(process: &Process) -> bool {
    process.has_parent(std::process::id())
}

/// Sends a signal to some of the targets: to whole process groups where a group has only targets, so that
/// processes that are being forked are included.
fn send(signal: Signal, all: &[Process], targets: &[&Process], to: &[&Process]) {
    let targets: HashSet<Pid> = targets.iter().map(|target| target.pid).collect();
    let unrelated = all.iter().filter(|process| !targets.contains(&process.pid));
    let unrelated: HashSet<Option<Pid>> = unrelated.map(|process| process.group).collect();
    for process in to {
        match process.group {
            Some(group) if !unrelated.contains(&process.group) => {
                if process.is_unchanged() {
                    send_to_group(group, signal);
                }
            }
            _ => send_if(process.pid, signal, || process.is_unchanged()),
        }
    }
}
