//! `POST /execute`: the state a command starts with, and concurrent commands.

use kit::{Server, TempDir, binary, is_missing, own_sleep, processes_with};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server started by a shell script, in which `$0` is the server's binary.
fn started_by(script: &str) -> Server {
    let base = TempDir::new();
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(binary().get_program()).env("SANDBOX_BASE_DIR", base.path());
    Server::from_command(command, base)
}

/// A server started by Python after this preparation. `None` if Python is not installed.
fn started_after(preparation: &str) -> Option<Server> {
    if is_missing("python3") {
        return None;
    }
    let script =
        format!("import fcntl, os, signal, sys, termios\n{preparation}\nos.execv(sys.argv[1], sys.argv[1:])");
    let base = TempDir::new();
    let mut command = Command::new("python3");
    command.args(["-c", &script]).arg(binary().get_program()).env("SANDBOX_BASE_DIR", base.path());
    Some(Server::from_command(command, base))
}

#[test]
fn commands_run_in_parallel_and_health_stays_responsive() {
    // EX-02
    let server = Server::start();
    let is_done = AtomicBool::new(false);
    let (slowest, health) = thread::scope(|scope| {
        let health = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !is_done.load(Ordering::Relaxed) {
                let started = Instant::now();
                assert_eq!(server.get("/").status, 200);
                slowest = slowest.max(started.elapsed());
                thread::sleep(Duration::from_millis(50));
            }
            slowest
        });
        let commands: Vec<_> = (0..80).map(|_| scope.spawn(|| server.execute("sleep 1"))).collect();
        let ran: Vec<_> = commands.into_iter().map(|thread| thread.join().unwrap()).collect();
        is_done.store(true, Ordering::Relaxed);
        ran.iter().for_each(|ran| ran.check("", "", 0));
        (ran.iter().map(|ran| ran.took).max().unwrap(), health.join().unwrap())
    });
    // The promise is 3 s and 0.3 s; a test machine may be busy.
    assert!(slowest < Duration::from_secs(8), "{slowest:?}");
    assert!(health < Duration::from_secs(2), "{health:?}");
}

const DESCRIPTORS: &str = r#"sh -c 'ls /proc/self/fd | tr "\n" " "'"#;

#[test]
fn command_has_only_the_three_standard_descriptors() {
    // EX-05. Descriptor 3 is the directory that `ls` has opened.
    let server = Server::start();
    let connections: Vec<_> = (0..20)
        .map(|_| {
            let mut client = server.connect();
            client.send_request("GET", "/", &[], b"");
            client.response();
            client
        })
        .collect();
    let commands: Vec<_> = (0..5)
        .map(|_| {
            let mut client = server.connect();
            let body = br#"{"command": "sleep 20"}"#;
            client.send_request("POST", "/execute", &[("Content-Type", "application/json")], body);
            client
        })
        .collect();
    server.execute(DESCRIPTORS).check("0 1 2 3 ", "", 0);
    drop((connections, commands));
}

#[test]
fn concurrent_commands_do_not_inherit_each_others_pipes() {
    // EX-07: the descriptors themselves, not only their effect, a late end-of-file.
    let server = Server::start();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    server.execute(DESCRIPTORS).check("0 1 2 3 ", "", 0);
                }
            });
        }
    });
}

#[test]
fn command_does_not_wait_for_a_concurrent_one() {
    // EX-07
    let server = Server::start();
    thread::scope(|scope| {
        let long = scope.spawn(|| server.execute("sleep 4"));
        for _ in 0..50 {
            server.execute("echo a").check("a\n", "", 0);
        }
        assert!(!long.is_finished());
        long.join().unwrap().check("", "", 0);
    });
}

#[test]
fn descriptors_inherited_by_the_server_are_not_passed_on() {
    let server = started_by("exec \"$0\" 5</dev/null 9</etc/passwd");
    server.execute(DESCRIPTORS).check("0 1 2 3 ", "", 0);
}

/// Signals 32 and 33: glibc reserves them and ignores them in every process it spawns (posix_spawn(3)), the
/// server and the command included.
const RESERVED_BY_GLIBC: u64 = 0b11 << 31;

#[track_caller]
fn check_signals(server: &Server) {
    let ran = server.execute(r#"grep -E "^Sig(Blk|Ign):" /proc/self/status"#);
    let set = |line: &str| u64::from_str_radix(line.split_once('\t').unwrap().1, 16).unwrap();
    let sets: Vec<u64> = ran.stdout().lines().map(set).collect();
    assert_eq!((sets[0], sets[1] & !RESERVED_BY_GLIBC), (0, 0), "{ran:?}");
}

#[test]
fn command_starts_with_no_blocked_or_ignored_signals() {
    // EX-08
    check_signals(&Server::start());
}

#[test]
fn signals_ignored_by_the_server_are_reset_for_commands() {
    // EX-08. While SIGCHLD is ignored, wait(2) reports no exit status (XC-10).
    let ignore = "for number in set(range(1, 32)) - {9, 19}: signal.signal(number, signal.SIG_IGN)";
    let Some(server) = started_after(ignore) else { return };
    check_signals(&server);
    for (command, exit_code) in [("true", 0), ("sh -c 'exit 7'", 7), ("sh -c 'kill $$'", -15)] {
        server.execute(command).check("", "", exit_code);
    }
}

#[test]
fn signals_blocked_in_the_server_are_unblocked_for_commands() {
    // EX-08
    let block = "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))";
    let Some(server) = started_after(block) else { return };
    check_signals(&server);
    server.execute("sh -c 'kill $$'").check("", "", -15);
}

#[test]
fn writer_without_a_reader_dies_of_sigpipe() {
    // EX-09
    let server = Server::start();
    server.execute(r#"sh -c '(yes; echo $? >&2) | head -1'"#).check("y\n", "141\n", 0);
    server.execute("sh -c 'kill -PIPE $$'").check("", "", -13);
}

#[test]
fn command_leads_its_own_process_group() {
    // EX-10. In /proc/pid/stat the pid comes first; the group is the third field after the name.
    let server = Server::start();
    let group = |stat: &str| stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().to_owned();
    let ran = server.execute("cat /proc/self/stat");
    assert_eq!(ran.stdout().split(' ').next().unwrap(), group(ran.stdout()));
    let own = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    assert_ne!(group(&own), group(ran.stdout()));
}

#[test]
fn command_has_no_controlling_terminal() {
    let server = Server::start();
    assert_ne!(server.execute("sh -c ': < /dev/tty'").exit_code(), 0);
}

#[test]
fn command_has_no_terminal_even_if_the_server_has_one() {
    let acquire_terminal = "os.setsid()\n\
                           master, slave = os.openpty()\n\
                           fcntl.ioctl(slave, termios.TIOCSCTTY, 0)\n\
                           os.set_inheritable(master, True)";
    let Some(server) = started_after(acquire_terminal) else { return };
    // The fifth field after the name is the terminal's number (proc_pid_stat(5)).
    let own = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    assert_ne!(own.rsplit(") ").next().unwrap().split(' ').nth(4), Some("0"));
    assert_ne!(server.execute("sh -c ': < /dev/tty'").exit_code(), 0);
}

#[test]
fn commands_share_no_state() {
    // EX-15
    let server = Server::start();
    let mut client = server.connect();
    for (command, stdout, exit_code) in [
        ("sh -c 'echo x; exit 0'", "x\n", 0),
        ("echo y", "y\n", 0),
        ("sh -c 'cd /; export A=b; umask 0; kill -9 $$'", "", -9),
        ("sh -c 'echo $A$(pwd -P)'", &format!("{}\n", server.base().display()), 0),
        ("nosuchcmd", "", 1),
        ("echo z", "z\n", 0),
    ] {
        let body = serde_json::json!({ "command": command }).to_string();
        client.send_request("POST", "/execute", &[("Content-Type", "application/json")], body.as_bytes());
        let response = client.response().json();
        assert_eq!(
            (&response["stdout"], &response["exit_code"]),
            (&stdout.into(), &exit_code.into()),
            "{command}"
        );
    }
}

#[test]
fn many_commands_leak_no_descriptors_or_children() {
    let server = Server::start();
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let run = |rounds: usize| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        server.execute("sh -c '(sleep 0.01 &); exit 7'").check("", "", 7);
                    }
                });
            }
        });
    };
    run(5);
    let settled = kit::eventually_some(|| {
        let before = descriptors();
        thread::sleep(Duration::from_millis(200));
        (before == descriptors()).then_some(before)
    });
    let before = settled.unwrap();
    run(50);
    assert!(kit::eventually(|| descriptors() <= before + 4), "{before} descriptors, then {}", descriptors());
    let children =
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).unwrap_or_default();
    assert_eq!(children.trim(), "");
}

#[test]
fn command_that_closes_all_descriptors_is_awaited() {
    let server = Server::start();
    let sleep = own_sleep(1);
    let ran = server.execute(&format!("sh -c 'exec 0<&- 1>&- 2>&-; exec {sleep}'"));
    ran.check("", "", 0);
    assert!(ran.took >= Duration::from_secs(1) && processes_with(&sleep).is_empty(), "{ran:?}");
}
