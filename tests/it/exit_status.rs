//! Exit statuses and signals in `exit_code`.

use kit::Server;

#[test]
fn every_exit_status_is_reported_unchanged() {
    // Includes XC-05: a status above 128 is a plain exit, not a signal.
    let server = Server::start();
    for status in 0..=255 {
        server.execute(&format!("sh -c 'exit {status}'")).check("", "", status);
    }
}

/// Signals whose default action ignores, stops or continues the process (signal(7)), and the two that glibc
/// reserves and ignores in every process it spawns (posix_spawn(3)), the server and the command included.
const NON_TERMINATING: [i64; 10] = [17, 18, 19, 20, 21, 22, 23, 28, 32, 33];

#[test]
fn terminating_signal_is_reported_as_its_negative_number() {
    // XC-02. 64 is SIGRTMAX.
    let server = Server::start();
    for signal in (1..=64).filter(|signal| !NON_TERMINATING.contains(signal)) {
        server.execute(&format!("sh -c 'ulimit -c 0; kill -{signal} $$'")).check("", "", -signal);
    }
}

#[test]
fn non_terminating_signal_does_not_end_the_command() {
    let server = Server::start();
    for signal in ["CHLD", "CONT", "URG", "WINCH"] {
        server.execute(&format!("sh -c 'kill -{signal} $$; echo on; exit 4'")).check("on\n", "", 4);
    }
    server.execute("sh -c 'trap \"echo caught; exit 6\" TERM; kill $$'").check("caught\n", "", 6);
    server.execute("sh -c '(sleep 0.3; kill -CONT $$) & kill -STOP $$; echo resumed'").check(
        "resumed\n",
        "",
        0,
    );
}

#[test]
fn exit_status_is_that_of_the_command_not_of_its_children() {
    let server = Server::start();
    // XC-07. Standard error is not compared: some shells print "Killed".
    let ran = server.execute(r#"sh -c 'sh -c "kill -9 \$\$"; echo $?'"#);
    assert_eq!((ran.stdout(), ran.exit_code()), ("137\n", 0));
    server.execute("sh -c 'false; true'").check("", "", 0);
    server.execute("sh -c 'true | false'").check("", "", 1);
    server.execute("sh -c 'echo x; nosuchcmd 2>/dev/null'").check("x\n", "", 127);
}
