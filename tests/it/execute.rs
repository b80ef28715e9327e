//! `POST /execute`.

use crate::harness::{Server, TempDir, binary};
use std::process::Command;

#[test]
fn a_command_runs_without_a_shell() {
    // EX-04
    let server = Server::start();
    let text = "a | cat && echo $HOME > out; echo `id` * ~/x {a,b} &";
    server.execute(&format!("echo {text}")).check(&format!("{text}\n"), "", 0);
    assert!(!server.base().join("out").exists());
}

#[test]
fn a_descriptor_that_the_server_was_started_with_stays_with_the_server() {
    let base = TempDir::new();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" 5</dev/null 9</etc/passwd"]).arg(binary().get_program());
    command.env("SANDBOX_BASE_DIR", base.path());
    let server = Server::from_command(command, base);
    server.execute(r#"sh -c 'ls /proc/self/fd | tr "\n" " "'"#).check("0 1 2 3 ", "", 0);
}
