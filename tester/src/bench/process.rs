//! The server's processes: started and stopped, and what they use, see proc(5).

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Client, SMALL_BUFFER_BYTES};
use crate::http::{Deadline, Server};
use crate::request::Request;

/// How often a server that starts or stops is asked whether it has.
const PAUSE: Duration = Duration::from_micros(100);
/// How long it may take to stop when it is asked to.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// USER_HZ, which is 100 on all that Linux runs on today.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server of ours. It is stopped, and so are its descendants, when this goes out of scope.
pub(super) struct Started {
    child: Child,
}

impl Started {
    /// Gives back how long it took until the first 200, too.
    pub(super) fn start(
        words: &[String],
        server: &Server,
        wait: Duration,
    ) -> Result<(Started, Duration), String> {
        let (program, arguments) = words.split_first().ok_or("no command to start")?;
        if server.connect(Deadline::after(wait)).is_ok() {
            return Err(format!("something listens at {} already", server.name));
        }
        let health = Request::new("GET", "/").header("Connection", "close").encode(&server.name);
        let begun = Instant::now();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start {program:?}: {error}"))?;
        let mut started = Started { child };
        loop {
            let answered =
                Client::connect(server, wait, SMALL_BUFFER_BYTES).and_then(|mut client| client.ask(&health));
            let took = begun.elapsed();
            if answered.is_ok() {
                return Ok((started, took));
            }
            if let Ok(Some(status)) = started.child.try_wait() {
                return Err(format!("{program:?} ended before it answered: {status}"));
            }
            if took > wait {
                return Err(format!("{program:?} did not answer at {} in time", server.name));
            }
            thread::sleep(PAUSE);
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // It is not reaped yet, so its number is no stranger's.
        let family = family(self.child.id());
        signal("-TERM", &[self.child.id()]);
        if !within(STOP_WAIT, || !matches!(self.child.try_wait(), Ok(None))) {
            // Both fail only when it has ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // One that only passed nothing on, such as a shell, leaves the real server behind.
        for (wait, name) in [(Duration::ZERO, "-TERM"), (STOP_WAIT, "-KILL")] {
            if within(wait, || remaining(&family).is_empty()) {
                return;
            }
            signal(name, &remaining(&family));
        }
        within(STOP_WAIT, || remaining(&family).is_empty());
    }
}

fn remaining(family: &[Process]) -> Vec<u32> {
    family.iter().filter(|process| process.is_there()).map(|process| process.pid).collect()
}

fn within(wait: Duration, mut met: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !met() {
        if begun.elapsed() > wait {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// The standard library sends no signal but SIGKILL. Where there is no `kill`, the caller's next step is that one.
fn signal(name: &str, pids: &[u32]) {
    let mut command = Command::new("kill");
    command.arg(name).args(pids.iter().map(u32::to_string));
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// A process that is told from a later one with the same number.
#[derive(Clone, Copy)]
pub(super) struct Process {
    pid: u32,
    started_ticks: u64,
}

impl Process {
    fn is_there(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.started_ticks == self.started_ticks && stat.state != "Z")
    }
}

/// A process and all its descendants, as far as they can be seen.
pub(super) fn family(pid: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<(u32, Stat)> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let mut known = BTreeSet::from([pid]);
    // A child's number can be below its parent's; each pass finds at least one more generation.
    while all.iter().filter(|(pid, stat)| known.contains(&stat.parent) && known.insert(*pid)).count() > 0 {}
    let members = all.iter().filter(|(pid, _)| known.contains(pid));
    members.map(|(pid, stat)| Process { pid: *pid, started_ticks: stat.started_ticks }).collect()
}

struct Stat {
    state: String,
    parent: u32,
    /// Its own, in user and kernel mode; not those of children it has waited for.
    cpu_ticks: u64,
    started_ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is a name that may have anything in it, in parentheses.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    // proc_pid_stat(5) counts from 1, and the first here is the third.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first().map(|state| (*state).to_owned())?,
        parent: u32::try_from(number(4)?).ok()?,
        cpu_ticks: number(14)? + number(15)?,
        started_ticks: number(22)?,
    })
}

/// `None` when there is no process, or one can not be read.
fn sum(processes: &[Process], of: impl Fn(u32) -> Option<u64>) -> Option<u64> {
    if processes.is_empty() {
        return None;
    }
    processes.iter().map(|process| of(process.pid)).sum()
}

/// That they have used themselves since they started.
pub(super) fn cpu_seconds(processes: &[Process]) -> Option<f64> {
    let ticks = sum(processes, |pid| stat(pid).map(|stat| stat.cpu_ticks))?;
    Some(ticks as f64 / TICKS_PER_SECOND)
}

pub(super) fn resident_bytes(processes: &[Process]) -> Option<u64> {
    sum(processes, |pid| field(pid, "status", "VmRSS:"))
}

/// Pages that several processes share are counted in parts.
pub(super) fn proportional_bytes(processes: &[Process]) -> Option<u64> {
    sum(processes, |pid| field(pid, "smaps_rollup", "Pss:"))
}

pub(super) fn peak_bytes(processes: &[Process]) -> Option<u64> {
    sum(processes, |pid| field(pid, "status", "VmHWM:"))
}

/// From here on the peak is a new one.
pub(super) fn forget_peak(processes: &[Process]) -> Option<()> {
    processes.iter().try_for_each(|process| fs::write(format!("/proc/{}/clear_refs", process.pid), "5").ok())
}

fn field(pid: u32, file: &str, name: &str) -> Option<u64> {
    kibibytes(&fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?, name)
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// This machine in a few words: its processor and its kernel.
pub(super) fn machine() -> (String, String) {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let information = read("/proc/cpuinfo");
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model);
    (model.trim().to_owned(), read("/proc/sys/kernel/osrelease").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_confuse_the_fields() {
        let rest = "S 7 2 2 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 1 0 5555 0 0";
        for name in ["a", "a b", "a) S 1 (b", ")"] {
            let stat = parse_stat(&format!("42 ({name}) {rest}\n")).unwrap();
            assert_eq!((stat.parent, stat.cpu_ticks, stat.started_ticks), (7, 33, 5555));
        }
        for text in
            ["", "42 (a)", "42 (a) S", "42 (a) S x 2 2 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 1 0 5555"]
        {
            assert!(parse_stat(text).is_none(), "{text}");
        }
    }

    #[test]
    fn memory_is_given_in_kibibytes() {
        let text = "Name:\ta\nVmHWM:\t    2048 kB\nPss:                   3 kB\nPss_Anon: 1 kB\n";
        assert_eq!(kibibytes(text, "VmHWM:"), Some(2 << 20));
        assert_eq!(kibibytes(text, "Pss:"), Some(3 << 10));
        assert_eq!(kibibytes(text, "VmRSS:"), None);
        assert_eq!(kibibytes("VmRSS: 3", "VmRSS:"), None);
    }

    #[test]
    fn a_family_is_a_process_and_its_descendants() {
        let child = Command::new("sleep").arg("30").spawn().unwrap();
        let started = Started { child };
        // What other tests start is there too, and may be gone a moment later.
        let mine = family(std::process::id());
        assert!(mine.iter().any(|process| process.pid == started.pid()));
        let family = family(started.pid());
        assert_eq!(family.len(), 1);
        assert!(resident_bytes(&family).is_some_and(|bytes| bytes > 4096));
        drop(started);
        assert!(remaining(&family).is_empty());
        assert_eq!(cpu_seconds(&[]), None);
    }

    #[test]
    fn what_a_shell_started_does_not_outlive_it() {
        let child = Command::new("sh").args(["-c", "sleep 30 & sleep 31; true"]).spawn().unwrap();
        let started = Started { child };
        assert!(within(STOP_WAIT, || family(started.pid()).len() == 3));
        let family = family(started.pid());
        drop(started);
        assert!(remaining(&family).is_empty());
    }
}
