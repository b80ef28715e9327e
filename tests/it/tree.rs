//! Ways to get away from the kill, and that none works: not at the deadline, not when the client is gone, not when the
//! server stops. And that nobody else is hit.

use crate::harness::{
    Client, Server, StopOnDrop, TempDir, binary, eventually, lacks, own_sleep, processes_with,
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

/// What is promised after a deadline, for the time in the middle: a noisy machine delays some, a fault delays all.
const PROMISED: Duration = Duration::from_millis(800);
/// For a single one.
const LATE: Duration = Duration::from_secs(3);

/// One technique. In the text SLEEP stands for a sleep of 30 s that no other test has, and `$1` (or the first argument) for
/// its number, so that every process whose command line has the number is one of this row's.
struct Escape {
    name: &'static str,
    interpreter: &'static str,
    text: &'static str,
    seen: Seen,
}

/// How those that try are seen.
enum Seen {
    /// At least so many processes with the number.
    Processes(usize),
    /// A file named `beat-` and the number that grows for as long as one lives.
    Beat,
}
use Seen::{Beat, Processes};

const fn escape(name: &'static str, interpreter: &'static str, seen: Seen, text: &'static str) -> Escape {
    Escape { name, interpreter, text, seen }
}

impl Escape {
    /// A chain that is started again and again is chased for a bounded time; on a busy machine it may be ahead once.
    fn tries(&self) -> usize {
        match self.seen {
            Processes(_) => 1,
            Beat => 2,
        }
    }
}

const ESCAPES: &[Escape] = &[
    escape("a session of its own", "sh", Processes(3), "setsid SLEEP & SLEEP"),
    escape("a session of an orphan", "sh", Processes(3), "setsid -f SLEEP; SLEEP"),
    escape("nohup", "sh", Processes(3), "nohup setsid SLEEP >/dev/null 2>&1 & SLEEP"),
    escape("pipes held from another session", "sh", Processes(3), "(setsid SLEEP 2>&1 &); echo held; SLEEP"),
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
    escape("no environment, an orphan's session", "sh", Processes(3), "env -i setsid -f SLEEP; SLEEP"),
    escape(
        "another program without environment",
        "perl",
        Processes(2),
        "use POSIX; %ENV = (); if (!fork) { setsid; exit if fork; exec 'SLEEP' } sleep 30",
    ),
    escape(
        "a program that replaces itself for ever",
        "perl",
        Beat,
        "use POSIX; if (!$ARGV[1]) { if (fork) { sleep 30 } setsid; exit if fork; }\n\
         %ENV = (); open F, '>>', \"beat-$ARGV[0]\"; syswrite F, '.'; exec $^X, $0, $ARGV[0], 1",
    ),
    escape(
        "deaf to signals",
        "sh",
        Processes(3),
        "trap '' TERM INT HUP QUIT; setsid sh -c 'while :; do SLEEP; done' & while :; do SLEEP; done",
    ),
    escape("stopped", "sh", Processes(4), "setsid sh -c 'SLEEP & kill -STOP $$' & SLEEP"),
    escape(
        "a stopped orphan without environment",
        "sh",
        Processes(4),
        "env -i setsid -f sh -c 'SLEEP & kill -STOP $$; wait'; SLEEP",
    ),
    escape("a chain of forks", "perl", Beat, CHAIN),
    escape("a chain of forks without environment", "sh", Beat, CHAIN_WITHOUT_ENVIRONMENT),
    escape(
        "a bomb of sixty-four sessions",
        "perl",
        Processes(64),
        "use POSIX; for (1..6) { fork || setsid } sleep 30",
    ),
    escape(
        "a bomb of sixty-four orphans without environment",
        "sh",
        Processes(64),
        "env -i setsid -f perl -e 'use POSIX; for (1..6) { fork || setsid } exec \"SLEEP\"'; SLEEP",
    ),
    escape("job control", "bash", Processes(4), "set -m; SLEEP & SLEEP & SLEEP & wait"),
    escape(
        "a tree fifty deep",
        "perl",
        Processes(50),
        "use POSIX; for (1..50) { if (fork) { wait; exit } setsid if $_ % 3 == 0 } sleep 30",
    ),
    escape(
        "a tree whose middle has gone",
        "perl",
        Processes(2),
        "use POSIX; $top = $$; for (1..20) { if (fork) { sleep 30 if $$ == $top; exit } setsid } sleep 30",
    ),
    escape(
        "another name",
        "perl",
        Beat,
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
        "a first thread that has ended",
        "python3",
        Beat,
        // exit(2) ends one thread.
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
        "a sibling of the leader",
        "perl",
        Processes(2),
        // clone(2) with CLONE_PARENT: a child of the server.
        "use POSIX; if (!syscall(56, 0x8011, 0, 0, 0, 0)) { setsid; sleep 30 } sleep 30",
    ),
    escape(
        "a sibling of the leader without environment",
        "perl",
        Processes(2),
        "use POSIX; if (!syscall(56, 0x8011, 0, 0, 0, 0)) { setsid; %ENV = (); exec 'SLEEP' } sleep 30",
    ),
];

// They end after a minute, should one get away.
const CHAIN: &str = "use POSIX; open F, '>>', \"beat-$ARGV[0]\"; if (fork) { sleep 30 }\n\
                     while (time < $^T + 60) { setsid; syswrite F, '.'; exit if fork }";
const CHAIN_WITHOUT_ENVIRONMENT: &str = "env -i setsid -f perl -e 'use POSIX; open F, \">>\", \"beat-$ARGV[0]\";\n\
                                         while (time < $^T + 60) { setsid; syswrite F, \".\"; exit if fork }' $1; SLEEP";

/// One try of one technique.
struct Attempt {
    escape: &'static Escape,
    base: PathBuf,
    number: String,
    command: String,
}

impl Attempt {
    fn new(server: &Server, escape: &'static Escape) -> Self {
        let sleep = own_sleep(30);
        let number = sleep.trim_start_matches("sleep ").to_owned();
        fs::write(server.base().join(format!("text-{number}")), escape.text.replace("SLEEP", &sleep))
            .unwrap();
        let command = format!("{} text-{number} {number}", escape.interpreter);
        Self { escape, base: server.base().to_owned(), number, command }
    }

    fn beats(&self) -> u64 {
        fs::metadata(self.base.join(format!("beat-{}", self.number))).map_or(0, |file| file.len())
    }

    /// Whether the technique has been used.
    fn is_out(&self) -> bool {
        match self.escape.seen {
            Processes(least) => processes_with(&self.number).len() >= least,
            Beat => self.beats() > 3,
        }
    }

    fn wait_for_escape(&self) {
        assert!(
            eventually(|| self.is_out()),
            "{}: it did not happen: {:?}",
            self.escape.name,
            processes_with(&self.number)
        );
    }

    /// Whether nobody is there soon.
    fn is_over(&self) -> bool {
        eventually(|| processes_with(&self.number).is_empty())
            && (!matches!(self.escape.seen, Beat) || eventually(|| !self.is_beating()))
    }

    fn is_beating(&self) -> bool {
        let before = self.beats();
        thread::sleep(Duration::from_millis(100));
        self.beats() != before
    }

    /// Nobody is there any more; it is not waited for.
    fn check_no_survivors(&self) {
        let before = self.beats();
        let survivors = processes_with(&self.number);
        assert!(survivors.is_empty(), "{}: {survivors:?}", self.escape.name);
        if matches!(self.escape.seen, Beat) {
            thread::sleep(Duration::from_millis(100));
            assert_eq!(self.beats(), before, "{}: it still writes", self.escape.name);
        }
    }
}

/// Those whose interpreter is here.
fn possible_escapes() -> Vec<&'static Escape> {
    ESCAPES.iter().filter(|escape| !lacks(escape.interpreter)).collect()
}

/// Has the work done for every technique, four at a time: they are rude to the machine, too.
fn for_each_escape(work: impl Fn(&'static Escape) + Sync) {
    let next = Mutex::new(possible_escapes().into_iter());
    thread::scope(|scope| {
        for _ in 0..4 {
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
    // TO-07, and much more
    let server = Server::with(&[("SANDBOX_EXEC_TIMEOUT_SECONDS", "2.5")]);
    let deadline = Duration::from_millis(2500);
    let times = Mutex::new(Vec::new());
    for_each_escape(|escape| {
        // `None`: the machine was too busy to let it happen before the deadline.
        let try_it = || {
            let attempt = Attempt::new(&server, escape);
            let (is_out, ran) = thread::scope(|scope| {
                let ran = scope.spawn(|| server.execute(&attempt.command));
                let mut is_out = false;
                eventually(|| {
                    is_out = attempt.is_out();
                    is_out || ran.is_finished()
                });
                (is_out, ran.join().unwrap())
            });
            is_out.then_some((attempt, ran))
        };
        let tried = || (0..3).find_map(|_| try_it()).expect(escape.name);
        let (mut attempt, mut ran) = tried();
        if escape.tries() > 1 && attempt.is_beating() {
            (attempt, ran) = tried();
        }
        attempt.check_no_survivors();
        assert_eq!(ran.json["timed_out"], true, "{}: {ran:?}", escape.name);
        let late = ran.took.saturating_sub(deadline);
        assert!(ran.took >= deadline && late < LATE, "{}: {ran:?}", escape.name);
        times.lock().unwrap().push((late, escape.name));
    });
    let mut times = times.into_inner().unwrap();
    times.sort();
    eprintln!("after the deadline: {times:?}");
    assert!(times[times.len() / 2].0 < PROMISED, "{times:?}");
}

#[test]
fn nothing_survives_a_disconnect() {
    // CN-02
    let server = Server::start();
    let slowest = Mutex::new(Duration::ZERO);
    for_each_escape(|escape| {
        for how in [Leave::Reset, Leave::Close] {
            let leave = || {
                let attempt = Attempt::new(&server, escape);
                let mut client = server.connect();
                if how == Leave::Reset {
                    // An answer that nobody has read makes the kernel reset the connection when it is closed (tcp(7)).
                    client.send_request("GET", "/", &[], b"");
                }
                client.send_command(&attempt.command);
                attempt.wait_for_escape();
                let left = Instant::now();
                drop(client);
                attempt.is_over().then(|| left.elapsed())
            };
            let took = (0..escape.tries()).find_map(|_| leave()).expect(escape.name);
            let mut slowest = slowest.lock().unwrap();
            *slowest = took.max(*slowest);
        }
    });
    let slowest = slowest.into_inner().unwrap();
    eprintln!("after the client: {slowest:?} at most");
    assert!(slowest < LATE, "{slowest:?}");
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Reset,
    Close,
}

#[test]
fn nothing_survives_shutdown() {
    // Four at a time, so that each is looked for while others flee.
    for escapes in possible_escapes().chunks(4) {
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
            let answer = client.answer();
            assert_eq!(answer.json()["exit_code"], 1, "{answer:?}");
        }
        assert!(server.wait().success());
        attempts.iter().for_each(Attempt::check_no_survivors);
    }
}

#[test]
fn port_is_free_again_after_the_deadline() {
    // TO-18
    if lacks("python3") {
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
    for left in ["SLEEP &", "setsid SLEEP &", "env -i setsid -f SLEEP", "env -i SLEEP &"] {
        let ran = server.execute(&format!("sh -c '{}'", left.replace("SLEEP", &sleep)));
        assert_eq!(ran.exit_code(), 0, "{ran:?}");
    }
    assert!(eventually(|| processes_with(&sleep).len() == 4));
    let left = processes_with(&sleep);
    let run = |command: &str| {
        server.execute_json(&json!({ "command": command, "timeout_seconds": 0.05 }));
    };
    run("sh -c 'env -i setsid -f sleep 40; sleep 40'");
    // So many that each number comes again.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..70).for_each(|_| server.execute("true").check("", "", 0)));
        }
    });
    for _ in 0..10 {
        run("sh -c 'setsid sleep 40 & sleep 40'");
    }
    assert_eq!(processes_with(&sleep), left);
    for pid in left {
        server.execute(&format!("kill -9 {pid}")).check("", "", 0);
    }
}

#[test]
fn running_command_keeps_its_execution_tag() {
    // Its number would come again after 512 others, and it has nothing but that number.
    let server = Server::start();
    thread::scope(|scope| {
        let sleep = own_sleep(4);
        let command = format!("env -i sh -c 'setsid -f {sleep}; {sleep}; echo safe'");
        let safe = scope.spawn({
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
        safe.join().unwrap().check("safe\n", "", 0);
    });
}

#[test]
fn one_server_never_kills_processes_of_another() {
    let (one, other) = (Server::start(), Server::start());
    let sleep = own_sleep(60);
    for server in [&one, &other] {
        for left in ["SLEEP &", "env -i setsid -f SLEEP"] {
            assert_eq!(server.execute(&format!("sh -c '{}'", left.replace("SLEEP", &sleep))).exit_code(), 0);
        }
    }
    assert!(eventually(|| processes_with(&sleep).len() == 4));
    let left = processes_with(&sleep);
    thread::scope(|scope| {
        let safe = scope.spawn(|| other.execute("env -i sh -c 'setsid -f sleep 3; sleep 3; echo safe'"));
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..8 {
                    let escape = "sh -c 'env -i setsid -f sleep 40; setsid sleep 40 & sleep 40'";
                    one.execute_json(&json!({ "command": escape, "timeout_seconds": 0.05 }));
                }
            });
        }
        assert_eq!(safe.join().unwrap().stdout(), "safe\n");
    });
    assert_eq!(processes_with(&sleep), left);
    assert_eq!((one.get("/").status, other.get("/").status), (200, 200));
    for pid in left {
        one.execute(&format!("kill -9 {pid}")).check("", "", 0);
    }
}

#[test]
fn rapid_pid_reuse_never_kills_unrelated_processes() {
    // TO-19. Each pid namespace has its own largest pid (pid_max in proc_sys_kernel(5)) on kernels that can do this at all.
    const SMALL: &str = "echo 400 > /proc/sys/kernel/pid_max && exec \"$0\"";
    let try_it = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]);
        command
    };
    let outside = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let tried = try_it("test $$ = 1 && echo 400 > /proc/sys/kernel/pid_max").output().unwrap();
    if !tried.status.success() || fs::read_to_string("/proc/sys/kernel/pid_max").unwrap() != outside {
        eprintln!("skipped: a pid namespace of its own can not be had here: {tried:?}");
        fs::write("/proc/sys/kernel/pid_max", outside).unwrap_or_default();
        return;
    }
    let base = TempDir::new();
    let mut command = try_it(SMALL);
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
            let late = json!({ "command": escape, "timeout_seconds": 0.05 });
            scope.spawn(move || until_stopped(&|| drop(server.execute_json(&late))));
        }
        for _ in 0..4 {
            for innocent in ["sh -c 'sleep 2; echo safe'", "setsid -w env -i sh -c 'sleep 2; echo safe'"]
                .map(String::from)
            {
                scope.spawn(move || server.execute(&innocent).check("safe\n", "", 0));
            }
            server.execute("sh -c 'sleep 2; echo safe'").check("safe\n", "", 0);
        }
        stop.store(true, Ordering::Relaxed);
        short.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
    });
    eprintln!("{count} short commands among 400 pids");
    assert!(count > 400, "pids were not used again: {count}");
}
