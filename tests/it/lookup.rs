//! Program lookup along PATH, and the errors for programs that cannot be started.

use kit::{Server, TempDir, binary};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const SCRIPT: &str = "#!/bin/sh\necho \"$0\"\n";

#[test]
fn start_failure_is_reported_in_python_wording() {
    let server = Server::start();
    server.add_program("nosheb", "echo hi");
    server.add_program("crlf", "#!/bin/sh\r\necho hi\r\n");
    server.add_program("nointerpreter", "#!/no/such/interpreter\n");
    server.add_program("directoryinterpreter", "#!/\n");
    server.add_program("empty", "");
    server.upload("plain", SCRIPT.as_bytes());
    symlink("loop", server.base().join("loop")).unwrap();
    symlink("gone", server.base().join("dangling")).unwrap();
    fs::create_dir(server.base().join("directory")).unwrap();
    let long = "a".repeat(5000);
    for (command, reason) in [
        ("nosuchcmd", "[Errno 2] No such file or directory: 'nosuchcmd'"), // EX-13
        ("/etc/passwd", "[Errno 13] Permission denied: '/etc/passwd'"),    // NF-01
        ("./nosheb", "[Errno 8] Exec format error: './nosheb'"),           // NF-03
        ("./crlf", "[Errno 2] No such file or directory: './crlf'"),       // NF-05
        ("./nosheb/x", "[Errno 20] Not a directory: './nosheb/x'"),        // NF-07
        (&long, &format!("[Errno 36] File name too long: '{long}'")),      // NF-09
        ("./nointerpreter", "[Errno 2] No such file or directory: './nointerpreter'"),
        ("./directoryinterpreter", "[Errno 13] Permission denied: './directoryinterpreter'"),
        ("./empty", "[Errno 8] Exec format error: './empty'"),
        ("./plain", "[Errno 13] Permission denied: './plain'"),
        ("plain", "[Errno 2] No such file or directory: 'plain'"), // the working directory is not searched
        ("./loop", "[Errno 40] Too many levels of symbolic links: './loop'"),
        ("./dangling", "[Errno 2] No such file or directory: './dangling'"),
        ("./directory", "[Errno 13] Permission denied: './directory'"),
        ("directory/", "[Errno 13] Permission denied: 'directory/'"),
        ("/", "[Errno 13] Permission denied: '/'"),
        ("A=b true", "[Errno 2] No such file or directory: 'A=b'"),
        ("cd", "[Errno 2] No such file or directory: 'cd'"),
        ("./\"it's\"", "[Errno 2] No such file or directory: \"./it's\""),
        ("'no such'", "[Errno 2] No such file or directory: 'no such'"),
    ] {
        server.execute(command).check_not_run(reason);
    }
    server.execute("sh -c 'echo well'").check("well\n", "", 0);
}

#[test]
fn program_open_for_writing_is_busy() {
    let server = Server::start();
    server.add_program("busy", SCRIPT);
    let writer = fs::OpenOptions::new().append(true).open(server.base().join("busy")).unwrap();
    server.execute("./busy").check_not_run("[Errno 26] Text file busy: './busy'");
    drop(writer);
}

/// A server with this PATH; `$B` is replaced by the base directory.
fn with_path(path: &str) -> Server {
    let base = TempDir::new();
    let mut command = binary();
    command
        .env("SANDBOX_BASE_DIR", base.path())
        .env("PATH", path.replace("$B", base.path().to_str().unwrap()));
    Server::from_command(command, base)
}

#[test]
fn path_search_skips_entries_that_are_not_directories() {
    // EC-05
    let server = with_path("/etc/passwd:/nonexist:$B/locked:::/bin:/usr/bin");
    fs::create_dir(server.base().join("locked")).unwrap();
    fs::set_permissions(server.base().join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    server.execute("echo hi").check("hi\n", "", 0);
}

#[test]
fn path_search_skips_files_that_cannot_be_started() {
    // EC-06
    let server = with_path("$B/a:$B/b:/bin:/usr/bin");
    let base = server.base().display().to_string();
    server.upload("a/tool", SCRIPT.as_bytes());
    server.add_program("b/tool", SCRIPT);
    server.upload("a/tool2", SCRIPT.as_bytes());
    fs::create_dir(server.base().join("a/tool3")).unwrap();
    server.add_program("b/tool3", SCRIPT);
    fs::create_dir(server.base().join("a/tool4")).unwrap();
    server.add_program("a/tool5", "#!/no/such/interpreter\n");
    server.add_program("b/tool5", SCRIPT);
    server.add_program("a/tool6", "no program");
    server.add_program("b/tool6", SCRIPT);
    server.add_program("a/tool7", "no program");
    server.add_program("a/tool8", SCRIPT);
    server.add_program("b/tool8", SCRIPT);
    for name in ["tool", "tool3", "tool5", "tool6"] {
        server.execute(name).check(&format!("{base}/b/{name}\n"), "", 0);
    }
    server.execute("tool8").check(&format!("{base}/a/tool8\n"), "", 0);
    server.execute("tool2").check_not_run("[Errno 13] Permission denied: 'tool2'");
    server.execute("tool4").check_not_run("[Errno 13] Permission denied: 'tool4'");
    server.execute("tool7").check_not_run("[Errno 8] Exec format error: 'tool7'");
}

#[test]
fn path_entry_may_be_empty_relative_or_end_in_a_slash() {
    for path in [":/bin:/usr/bin", "/bin:/usr/bin:", "/bin::/usr/bin", ".:/bin:/usr/bin", "./:/bin:/usr/bin"]
    {
        let server = with_path(path);
        server.add_program("tool", "#!/bin/sh\necho here\n");
        server.execute("tool").check("here\n", "", 0);
    }
    with_path("").execute("echo").check_not_run("[Errno 2] No such file or directory: 'echo'");
}

#[test]
fn without_path_the_search_uses_python_defaults() {
    let base = TempDir::new();
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", base.path()).env_remove("PATH");
    let server = Server::from_command(command, base);
    server.execute("echo hi").check("hi\n", "", 0);
    assert!(!server.execute("env").stdout().lines().any(|line| line.starts_with("PATH=")));
    server.add_program("tool", SCRIPT);
    server.execute("tool").check_not_run("[Errno 2] No such file or directory: 'tool'");
}

#[test]
fn arguments_may_be_as_long_as_the_kernel_allows() {
    let server = Server::start();
    // NF-11. 128 KiB including the NUL (MAX_ARG_STRLEN, execve(2)).
    let argument = "a".repeat(131_071);
    server.execute(&format!("echo {argument}")).check(&format!("{argument}\n"), "", 0);
    server.execute(&format!("echo {argument}a")).check_not_run("[Errno 7] Argument list too long: 'echo'");
    // NF-12. The body is 2 MB.
    let arguments = "x ".repeat(1_000_000);
    server.execute(&format!("true {arguments}")).check_not_run("[Errno 7] Argument list too long: 'true'");
    server.execute(&format!("true {}", "x ".repeat(40_000))).check("", "", 0);
    server.execute(&format!("true {}", format!("{} ", "x".repeat(100_000)).repeat(4))).check("", "", 0);
}
