//! Startup, configuration, and the commands `healthcheck` and `install`.

use kit::{Server, TempDir, binary};
use serde_json::json;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

#[test]
fn startup_logs_the_address_and_base_directory() {
    let server = Server::start();
    let expected = format!("listening on http://{}, serving {}\n", server.address(), server.base().display());
    assert!(server.log().ends_with(&expected), "{}", server.log());
}

#[test]
fn missing_base_dir_warns_and_is_used_once_created() {
    let base = TempDir::new();
    let missing = base.path().join("later");
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", &missing);
    let server = Server::from_command(command, base);
    assert!(
        server.log().contains("does not exist") && server.log().contains("--base-dir"),
        "{}",
        server.log()
    );
    let name = missing.display();
    server.execute("pwd").check_not_run(&format!("[Errno 2] No such file or directory: '{name}'"));
    server.get("/exists/").check(200, &json!({ "path": "", "exists": false }));
    assert_eq!(server.get("/").status, 200);
    std::fs::create_dir(&missing).unwrap();
    server.execute("pwd").check(&format!("{name}\n"), "", 0);
}

#[test]
fn port_in_use_fails_with_a_one_line_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = binary().env("SANDBOX_LISTEN", &address).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(message.contains(&address) && message.lines().count() == 1, "{message}");
}

#[test]
fn invalid_port_fails_with_a_one_line_error() {
    // CG-07
    for port in ["0", "65536", "-1", "abc"] {
        let output = binary().env("SANDBOX_LISTEN", port).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{port}");
        assert!(message.contains("SANDBOX_LISTEN") && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn invalid_timeout_warns_and_uses_the_default() {
    // CG-03
    for value in ["5s", "", "5,0", "0x10", "five", "5 5", "nan", "inf", "0", "-1"] {
        let server = Server::with(&[("SANDBOX_EXEC_TIMEOUT_SECONDS", value)]);
        let warnings = server.log().lines().filter(|line| line.contains("warn")).count();
        assert!(warnings == 1 && server.log().contains(&format!("{value:?}")), "{}", server.log());
        server.execute("echo x").check("x\n", "", 0);
    }
    let base = TempDir::new();
    let mut command = binary();
    let value = std::ffi::OsStr::from_bytes(b"\xff");
    command.env("SANDBOX_BASE_DIR", base.path()).env("SANDBOX_EXEC_TIMEOUT_SECONDS", value);
    let server = Server::from_command(command, base);
    assert!(server.log().contains("invalid SANDBOX_EXEC_TIMEOUT_SECONDS \"\u{fffd}\""), "{}", server.log());
    server.execute("echo x").check("x\n", "", 0);
}

#[test]
fn timeout_beyond_the_clock_range_works() {
    // CG-02
    for value in ["3e9", "1e10", "1e18", "1e19", "1.7e308", "2147483.648", "77777777777777777777"] {
        let server = Server::with(&[("SANDBOX_EXEC_TIMEOUT_SECONDS", value)]);
        server.execute("echo x").check("x\n", "", 0);
        assert_eq!(server.log().lines().count(), 1, "{}", server.log());
    }
}

#[test]
fn healthcheck_exit_status_reports_health() {
    let server = Server::start();
    let address = server.address().to_string();
    assert!(binary().args(["healthcheck", "--listen", &address]).status().unwrap().success());
    drop(server);
    let output = binary().arg("healthcheck").env("SANDBOX_LISTEN", &address).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains(&address) && message.lines().count() == 1, "{message}");
}

#[test]
fn healthcheck_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let started = std::time::Instant::now();
    assert!(!binary().args(["healthcheck", "--listen", &address]).output().unwrap().status.success());
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn install_writes_one_executable_copy() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new();
    for _ in 0..2 {
        assert!(binary().arg("install").arg(directory.path()).output().unwrap().status.success());
    }
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["sandbox-runtime"]);
    let copy = directory.path().join("sandbox-runtime");
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o7777, 0o555);
    let version = std::process::Command::new(&copy).arg("--version").output().unwrap();
    assert!(String::from_utf8(version.stdout).unwrap().starts_with("sandbox-runtime "));
    let missing = directory.path().join("missing");
    let output = binary().arg("install").arg(&missing).output().unwrap();
    assert!(!output.status.success() && String::from_utf8(output.stderr).unwrap().lines().count() == 1);
}
