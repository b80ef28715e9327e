//! `POST /execute`.

use crate::harness::Server;

#[test]
fn a_command_runs_without_a_shell() {
    // EX-04
    let server = Server::start();
    let text = "a | cat && echo $HOME > out; echo `id` * ~/x {a,b} &";
    server.execute(&format!("echo {text}")).check(&format!("{text}\n"), "", 0);
    assert!(!server.base().join("out").exists());
}
