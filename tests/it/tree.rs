//! Escape techniques: none survives the deadline, a disconnect or shutdown, and no unrelated process is
//! killed.

use kit::{
    Client, Server, StopOnDrop, TempDir, binary, eventually, eventually_some, is_gvisor, is_missing,
    own_sleep, processes_with,
};
use serde_json::json;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The promised median delay after a deadline: a noisy machine delays some commands, a fault delays all.
const PROMISED: Duration = Duration::from_millis(800);
/// The bound for each command.
const LATE: Duration = Duration::from_secs(3);

/// One escape technique. In the script, SLEEP is replaced by a sleep of 30 s with a duration unique to the
/// attempt. That duration is the attempt's id, and also `$1` (or the first argument): a process whose command
/// line contains it belongs to this attempt.
struct Escape {
    name: &'static str,
    interpreter: &'static str,
    script: &'static str,
    evidence: Evidence,
}

/// How escaped processes are detected.
enum Evidence {
    /// At least this many processes have the id in their command line.
    Processes(usize),
    /// The file `beat-<id>` grows while any process is alive.
    Heartbeat,
}
use Evidence::{Heartbeat, Processes};

const fn escape(
    name: &'static str,
    interpreter: &'static str,
    evidence: Evidence,
    script: &'static str,
) -> Escape {
    Escape { name, interpreter, script, evidence }
}

impl Escape {
    /// The server scans for a chain of short-lived processes for a bounded time. On a busy machine the chain
    /// may outrun it once.
    fn tries(&self) -> usize {
        match self.evidence {
            Processes(_) => 1,
            Heartbeat => 2,
        }
    }
}

const ESCAPES: &[Escape] = &[
    escape("a separate session", "sh", Processes(3), "setsid SLEEP & SLEEP"),
    escape("an orphan in a separate session", "sh", Processes(3), "setsid -f SLEEP; SLEEP"),
    escape("nohup", "sh", Processes(3), "nohup setsid SLEEP >/dev/null 2>&1 & SLEEP"),
    escape(
        "pipes held open from another session",
        "sh",
        Processes(3),
        "(setsid SLEEP 2>&1 &); echo held; SLEEP",
    ),
    escape(
        "a daemon",
        "python3",
        Processes(2),
        "import os, sys, time\n\
         if os.fork() == 0:\n\
         \x20   os.setsid()\n\
         \x20   if os.fork(): os._exit(0)\n\
         \x20   os.chdir('/'); os.umask(0); os.closerange(0, 256)\n\
         time.sleep(30)",
    ),
    escape("no environment", "sh", Processes(2), "env -i SLEEP & wait"),
    escape("no environment, another session", "sh", Processes(2), "env -i setsid SLEEP & wait"),
    escape(
        "no environment, an orphan in another session",
        "sh",
        Processes(3),
        "env -i setsid -f SLEEP; SLEEP",
    ),
    escape(
        "another program without an environment",
        "perl",
        Processes(2),
        "use POSIX; %ENV = (); if (!fork) { setsid; exit if fork; exec 'SLEEP' } sleep 30",
    ),
    escape(
        "a program that re-executes itself endlessly",
        "perl",
        Heartbeat,
        "use POSIX; if (!$ARGV[1]) { if (fork) { sleep 30 } setsid; exit if fork; }\n\
         %ENV = (); open F, '>>', \"beat-$ARGV[0]\"; syswrite F, '.'; exec $^X, $0, $ARGV[0], 1",
    ),
    escape(
        "ignored signals",
        "sh",
        Processes(3),
        "trap '' TERM INT HUP QUIT; setsid sh -c 'while :; do SLEEP; done' & while :; do SLEEP; done",
    ),
    escape("stopped", "sh", Processes(4), "setsid sh -c 'SLEEP & kill -STOP $$' & SLEEP"),
    escape(
        "a stopped orphan without an environment",
        "sh",
        Processes(4),
        "env -i setsid -f sh -c 'SLEEP & kill -STOP $$; wait'; SLEEP",
    ),
    escape("a chain of forks", "perl", Heartbeat, CHAIN),
    escape("a chain of forks without an environment", "sh", Heartbeat, CHAIN_WITHOUT_ENVIRONMENT),
    escape(
        "a burst of sixty-four sessions",
        "perl",
        Processes(64),
        "use POSIX; for (1..6) { fork || setsid } sleep 30",
    ),
    escape(
        "a burst of sixty-four orphans without an environment",
        "sh",
        Processes(64),
        "env -i setsid -f perl -e 'use POSIX; for (1..6) { fork || setsid } exec \"SLEEP\"'; SLEEP",
    ),
    escape(
        "the id of another execution",
        "sh",
        Processes(2),
        "SANDBOX_EXECUTION_ID=x setsid -f SLEEP; SLEEP",
    ),
    escape("job control", "bash", Processes(4), "set -m; SLEEP & SLEEP & SLEEP & wait"),
    escape(
        "a tree fifty levels deep",
        "perl",
        Processes(50),
        "use POSIX; for (1..50) { if (fork) { wait; exit } setsid if $_ % 3 == 0 } sleep 30",
    ),
    escape(
        "a tree whose intermediate processes have exited",
        "perl",
        Processes(2),
        "use POSIX; $top = $$; for (1..20) { if (fork) { sleep 30 if $$ == $top; exit } setsid } sleep 30",
    ),
    escape(
        "a misleading process name",
        "perl",
        Heartbeat,
        "use POSIX; open F, '>>', \"beat-$ARGV[0]\"; if (fork) { sleep 30 } setsid; exit if fork;\n\
         $0 = 'init) S 1 1 1'; for (1..12000) { syswrite F, '.'; select undef, undef, undef, 0.005 }",
    ),
    escape(
        "many threads",
        "python3",
        Processes(2),
        "import os, threading, time\n\
         if os.fork() == 0: os.setsid()\n\
         for _ in range(50): threading.Thread(target=time.sleep, args=(30,)).start()",
    ),
    escape(
        "a main thread that has exited",
        "python3",
        Heartbeat,
        // exit(2), system call 60, ends only the calling thread.
        "import ctypes, os, threading, time\n\
         if os.fork(): time.sleep(30)\n\
         os.setsid()\n\
         if os.fork(): os._exit(0)\n\
         beat = open('beat-' + __import__('sys').argv[1], 'ab', 0)\n\
         def work():\n\
         \x20   for _ in range(12000): beat.write(b'.'); time.sleep(0.005)\n\
         threading.Thread(target=work).start()\n\
         ctypes.CDLL(None).syscall(60, 0)",
    ),
    escape(
        "a sibling of the child",
        "perl",
        Processes(2),
        // clone(2), system call 56, with CLONE_PARENT: the new process is a child of the server.
        "use POSIX; if (!syscall(56, 0x8011, 0, 0, 0, 0)) { setsid; sleep 30 } sleep 30",
    ),
    escape(
        "a sibling of the child without an environment",
        "perl",
        Processes(2),
        "use POSIX; if (!syscall(56, 0x8011, 0, 0, 0, 0)) { setsid; %ENV = (); exec 'SLEEP' } sleep 30",
    ),
];

// Each ends after a minute, in case one escapes.
const CHAIN: &str = "use POSIX; open F, '>>', \"beat-$ARGV[0]\"; if (fork) { sleep 30 }\n\
                     while (time < $^T + 60) { setsid; syswrite F, '.'; exit if fork }";
const CHAIN_WITHOUT_ENVIRONMENT: &str = "\
    env -i setsid -f perl -e 'use POSIX; open F, \">>\", \"beat-$ARGV[0]\";\n\
     while (time < $^T + 60) { setsid; syswrite F, \".\"; exit if fork }' $1; SLEEP";

/// One attempt with one technique.
struct Attempt {
    escape: &'static Escape,
    base: PathBuf,
    id: String,
    command: String,
}

impl Attempt {
    fn new(server: &Server, escape: &'static Escape) -> Self {
        let sleep = own_sleep(30);
        let id = sleep.trim_start_matches("sleep ").to_owned();
        fs::write(server.base().join(format!("script-{id}")), escape.script.replace("SLEEP", &sleep))
            .unwrap();
        let command = format!("{} script-{id} {id}", escape.interpreter);
        Self { escape, base: server.base().to_owned(), id, command }
    }

    fn beats(&self) -> u64 {
        fs::metadata(self.base.join(format!("beat-{}", self.id))).map_or(0, |file| file.len())
    }

    /// Whether the processes have escaped.
    fn has_escaped(&self) -> bool {
        match self.escape.evidence {
            Processes(least) => processes_with(&self.id).len() >= least,
            Heartbeat => self.beats() > 3,
        }
    }

    fn wait_for_escape(&self) {
        assert!(
            eventually(|| self.has_escaped()),
            "{}: did not escape: {:?}",
            self.escape.name,
            processes_with(&self.id)
        );
    }

    /// Waits until every process has ended; whether that happened.
    fn wait_until_dead(&self) -> bool {
        eventually(|| processes_with(&self.id).is_empty())
            && (!matches!(self.escape.evidence, Heartbeat) || eventually(|| !self.is_beating()))
    }

    fn is_beating(&self) -> bool {
        let before = self.beats();
        thread::sleep(Duration::from_millis(100));
        self.beats() != before
    }

    /// Every process is dead now, without waiting.
    fn check_no_survivors(&self) {
        let before = self.beats();
        let survivors = processes_with(&self.id);
        assert!(survivors.is_empty(), "{}: {survivors:?}", self.escape.name);
        if matches!(self.escape.evidence, Heartbeat) {
            thread::sleep(Duration::from_millis(100));
            assert_eq!(self.beats(), before, "{}: still writing", self.escape.name);
        }
    }
}

/// Techniques that may survive in gVisor, with the reason.
const SURVIVORS_IN_GVISOR: &[(&str, &str)] = &[
    ("a main thread that has exited", "/proc/PID of such a process shows no limits, environment or threads"),
    ("a chain of forks", NO_NEWEST_PID),
    ("a chain of forks without an environment", NO_NEWEST_PID),
];
const NO_NEWEST_PID: &str = "/proc/loadavg does not show the newest pid, so only chance finds a living link";

/// The techniques whose interpreter is installed, without those that may survive on this kernel.
fn available_escapes() -> Vec<&'static Escape> {
    let survivors = if is_gvisor() { SURVIVORS_IN_GVISOR } else { &[] };
    for (name, reason) in survivors {
        assert!(ESCAPES.iter().any(|escape| escape.name == *name), "{name} is no technique");
        eprintln!("left out in gVisor: {name}: {reason}");
    }
    let killed = ESCAPES.iter().filter(|escape| survivors.iter().all(|(name, _)| escape.name != *name));
    killed.filter(|escape| !is_missing(escape.interpreter)).collect()
}

/// Runs `work` for every technique. Only four at a time, since some load the machine heavily. In gVisor only
/// one: its kernel computes ten times as long for each look at `/proc`, and the tests look all the time.
fn for_each_escape(work: impl Fn(&'static Escape) + Sync) {
    let next = Mutex::new(available_escapes().into_iter());
    let at_once = if is_gvisor() { 1 } else { 4 };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some(escape) = next.lock().unwrap().next() else { return };
                    work(escape);
                }
            });
        }
    });
}

#[test]
fn nothing_survives_the_deadline_and_the_response_is_on_time() {
    // TO-07
    let server = Server::with(&[("SANDBOX_EXEC_TIMEOUT_SECONDS", "2.5")]);
    let deadline = Duration::from_millis(2500);
    let times = Mutex::new(Vec::new());
    for_each_escape(|escape| {
        // `None` if the machine was too busy for the escape to happen before the deadline.
        let run_once = || {
            let attempt = Attempt::new(&server, escape);
            let (has_escaped, ran) = thread::scope(|scope| {
                let ran = scope.spawn(|| server.execute(&attempt.command));
                let mut has_escaped = false;
                eventually(|| {
                    has_escaped = attempt.has_escaped();
                    has_escaped || ran.is_finished()
                });
                (has_escaped, ran.join().unwrap())
            });
            has_escaped.then_some((attempt, ran))
        };
        let run = || (0..3).find_map(|_| run_once()).expect(escape.name);
        let (mut attempt, mut ran) = run();
        if escape.tries() > 1 && attempt.is_beating() {
            (attempt, ran) = run();
        }
        attempt.check_no_survivors();
        assert_eq!(ran.json["timed_out"], true, "{}: {ran:?}", escape.name);
        let late = ran.took.saturating_sub(deadline);
        assert!(ran.took >= deadline && late < LATE, "{}: {ran:?}", escape.name);
        times.lock().unwrap().push((late, escape.name));
    });
    let mut times = times.into_inner().unwrap();
    times.sort();
    eprintln!("responses after the deadline: {times:?}");
    assert!(times[times.len() / 2].0 < PROMISED, "{times:?}");
}

#[test]
fn nothing_survives_a_disconnect() {
    // CN-02
    let server = Server::start();
    let slowest = Mutex::new(Duration::ZERO);
    for_each_escape(|escape| {
        for how in [Disconnect::Reset, Disconnect::Close] {
            let disconnect = || {
                let attempt = Attempt::new(&server, escape);
                let mut client = server.connect();
                if how == Disconnect::Reset {
                    // Closing a socket with unread data makes the kernel reset the connection (tcp(7)).
                    client.send_request("GET", "/", &[], b"");
                }
                client.send_command(&attempt.command);
                attempt.wait_for_escape();
                let disconnected = Instant::now();
                drop(client);
                attempt.wait_until_dead().then(|| disconnected.elapsed())
            };
            let took = (0..escape.tries()).find_map(|_| disconnect()).expect(escape.name);
            let mut slowest = slowest.lock().unwrap();
            *slowest = took.max(*slowest);
        }
    });
    let slowest = slowest.into_inner().unwrap();
    eprintln!("at most {slowest:?} after the disconnect");
    assert!(slowest < LATE, "{slowest:?}");
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Disconnect {
    Reset,
    Close,
}

#[test]
fn nothing_survives_shutdown() {
    // Four at a time, so that the server looks for each while the others escape.
    for escapes in available_escapes().chunks(4) {
        let mut server = Server::with(&[("SANDBOX_SHUTDOWN_GRACE_SECONDS", "0")]);
        let attempts: Vec<_> = escapes.iter().map(|escape| Attempt::new(&server, escape)).collect();
        let clients: Vec<Client> = attempts
            .iter()
            .map(|attempt| {
                let mut client = server.connect();
                client.send_command(&attempt.command);
                attempt.wait_for_escape();
                client
            })
            .collect();
        server.signal("TERM");
        for mut client in clients {
            let response = client.response();
            assert_eq!(response.json()["exit_code"], 1, "{response:?}");
        }
        assert!(server.wait().success());
        attempts.iter().for_each(Attempt::check_no_survivors);
    }
}

#[test]
fn port_is_free_again_after_the_deadline() {
    // TO-18
    if is_missing("python3") {
        return;
    }
    let server = Server::with(&[("SANDBOX_EXEC_TIMEOUT_SECONDS", "3")]);
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listens = || TcpStream::connect(address).is_ok();
    let serve = format!("python3 -m http.server --bind 127.0.0.1 {}", address.port());
    thread::scope(|scope| {
        let ran = scope.spawn(|| server.execute(&format!("sh -c 'setsid {serve} & wait'")));
        assert!(eventually(listens));
        assert_eq!(ran.join().unwrap().json["timed_out"], true);
    });
    assert!(!listens());
}

#[test]
fn earlier_background_processes_survive_a_later_deadline() {
    let server = Server::start();
    let sleep = own_sleep(60);
    for script in ["SLEEP &", "setsid SLEEP &", "env -i setsid -f SLEEP", "env -i SLEEP &"] {
        let ran = server.execute(&format!("sh -c '{}'", script.replace("SLEEP", &sleep)));
        assert_eq!(ran.exit_code(), 0, "{ran:?}");
    }
    assert!(eventually(|| processes_with(&sleep).len() == 4));
    let background = processes_with(&sleep);
    let run = |command: &str| {
        server.execute_json(&json!({ "command": command, "timeout_seconds": 0.05 }));
    };
    run("sh -c 'env -i setsid -f sleep 40; sleep 40'");
    // Many commands, in case a tag is used again.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..70).for_each(|_| server.execute("true").check("", "", 0)));
        }
    });
    for _ in 0..10 {
        run("sh -c 'setsid sleep 40 & sleep 40'");
    }
    assert_eq!(processes_with(&sleep), background);
    for pid in background {
        server.execute(&format!("kill -9 {pid}")).check("", "", 0);
    }
}

#[test]
fn running_command_keeps_its_execution_tag() {
    // Without an environment only the limit identifies these processes, and none of 512 others may repeat it.
    let server = Server::start();
    thread::scope(|scope| {
        let sleep = own_sleep(4);
        let command = format!("env -i sh -c 'setsid -f {sleep}; {sleep}; echo safe'");
        let long = scope.spawn({
            let server = &server;
            move || server.execute(&command)
        });
        assert!(eventually(|| processes_with(&sleep).len() == 3));
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..64 {
                    server.execute_json(&json!({ "command": "sleep 40", "timeout_seconds": 0.001 }));
                }
            });
        }
        long.join().unwrap().check("safe\n", "", 0);
    });
}

#[test]
fn restored_environment_is_no_execution_tag() {
    let server = Server::start();
    let sleep = own_sleep(3);
    let own = "sh -c 'echo $SANDBOX_EXECUTION_ID >id; sleep 30'";
    thread::scope(|scope| {
        let late = scope.spawn(|| server.execute_json(&json!({ "command": own, "timeout_seconds": 1 })));
        let read = || fs::read_to_string(server.base().join("id")).ok().filter(|id| id.ends_with('\n'));
        let id = eventually_some(read).unwrap();
        let command = format!("env SANDBOX_EXECUTION_ID={} sh -c 'setsid -w {sleep}; echo safe'", id.trim());
        let server = &server;
        let restored = scope.spawn(move || server.execute(&command));
        assert!(eventually(|| !processes_with(&sleep).is_empty()));
        assert!(!late.is_finished());
        restored.join().unwrap().check("safe\n", "", 0);
        assert_eq!(late.join().unwrap().json["timed_out"], true);
    });
}

#[test]
fn one_server_never_kills_processes_of_another() {
    let (one, other) = (Server::start(), Server::start());
    let sleep = own_sleep(60);
    for server in [&one, &other] {
        for script in ["SLEEP &", "env -i setsid -f SLEEP"] {
            let command = format!("sh -c '{}'", script.replace("SLEEP", &sleep));
            assert_eq!(server.execute(&command).exit_code(), 0);
        }
    }
    assert!(eventually(|| processes_with(&sleep).len() == 4));
    let background = processes_with(&sleep);
    thread::scope(|scope| {
        let unrelated = scope.spawn(|| other.execute("env -i sh -c 'setsid -f sleep 3; sleep 3; echo safe'"));
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..8 {
                    let escape = "sh -c 'env -i setsid -f sleep 40; setsid sleep 40 & sleep 40'";
                    one.execute_json(&json!({ "command": escape, "timeout_seconds": 0.05 }));
                }
            });
        }
        assert_eq!(unrelated.join().unwrap().stdout(), "safe\n");
    });
    assert_eq!(processes_with(&sleep), background);
    assert_eq!((one.get("/").status, other.get("/").status), (200, 200));
    for pid in background {
        one.execute(&format!("kill -9 {pid}")).check("", "", 0);
    }
}

#[test]
fn rapid_pid_reuse_never_kills_unrelated_processes() {
    // TO-19. On kernels that support it, each pid namespace has its own pid_max (proc_sys_kernel(5)).
    const SMALL_PID_MAX: &str = "echo 400 > /proc/sys/kernel/pid_max && exec \"$0\"";
    let in_pid_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]);
        command
    };
    let pid_max = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let output = in_pid_namespace("test $$ = 1 && echo 400 > /proc/sys/kernel/pid_max").output().unwrap();
    if !output.status.success() || fs::read_to_string("/proc/sys/kernel/pid_max").unwrap() != pid_max {
        eprintln!("skipped: no pid namespace with its own pid_max is available: {output:?}");
        // The kernel has only one pid_max, and the attempt may have changed it.
        fs::write("/proc/sys/kernel/pid_max", pid_max).unwrap_or_default();
        return;
    }
    let base = TempDir::new();
    let mut command = in_pid_namespace(SMALL_PID_MAX);
    command.arg(binary().get_program()).env("SANDBOX_BASE_DIR", base.path());
    let server = &Server::from_command(command, base);
    let stop = &AtomicBool::new(false);
    let until_stopped = move |work: &dyn Fn()| {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            work();
            count += 1;
        }
        count
    };
    let count = thread::scope(|scope| {
        let _stop = StopOnDrop(stop);
        let short: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(move || until_stopped(&|| server.execute("sh -c 'exit 0'").check("", "", 0)))
            })
            .collect();
        for escape in ["sh -c 'setsid sleep 1 & sleep 1'", "env -i sh -c 'setsid -f sleep 1; sleep 1'"] {
            let request = json!({ "command": escape, "timeout_seconds": 0.05 });
            scope.spawn(move || until_stopped(&|| drop(server.execute_json(&request))));
        }
        for _ in 0..4 {
            for unrelated in ["sh -c 'sleep 2; echo safe'", "setsid -w env -i sh -c 'sleep 2; echo safe'"]
                .map(String::from)
            {
                scope.spawn(move || server.execute(&unrelated).check("safe\n", "", 0));
            }
            server.execute("sh -c 'sleep 2; echo safe'").check("safe\n", "", 0);
        }
        stop.store(true, Ordering::Relaxed);
        short.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
    });
    eprintln!("{count} short commands among 400 pids");
    assert!(count > 400, "pids were not reused: {count} commands");
}
