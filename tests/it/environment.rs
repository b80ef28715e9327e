//! The environment of a command: standard input, variables, working directory, umask and limits.

use kit::{Server, TempDir, binary};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn stdin_is_empty() {
    let server = Server::start();
    server.execute("cat").check("", "", 0);
    server.execute("sh -c 'read x; echo rc=$?'").check("rc=1\n", "", 0); // SI-02
    server.execute("readlink /proc/self/fd/0").check("/dev/null\n", "", 0);
}

/// A shell script that starts the server from the base directory; `$0` is the server's binary.
fn shell(script: &str, base: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(binary().get_program()).env("SANDBOX_BASE_DIR", base).current_dir(base);
    command
}

#[test]
fn command_does_not_inherit_the_server_stdin() {
    // SI-03
    let base = TempDir::new();
    fs::write(base.path().join("input"), "secret\n").unwrap();
    let server = Server::from_command(shell("exec \"$0\" <input", base.path()), base);
    server.execute("cat").check("", "", 0);
    let fdinfo = fs::read_to_string(format!("/proc/{}/fdinfo/0", server.pid())).unwrap();
    assert_eq!(fdinfo.lines().next(), Some("pos:\t0"));
}

#[test]
fn server_started_with_closed_stdio_runs_commands() {
    // SI-04
    for closed in ["0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"] {
        let base = TempDir::new();
        let mut command = shell(&format!("exec \"$0\" {closed}"), base.path());
        command.stderr(Stdio::null());
        let server = Server::without_log(command, base);
        let ran = server.execute("sh -c 'readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2; echo E >&2'");
        let links: Vec<&str> = ran.stdout().lines().collect();
        let ["/dev/null", out, err] = links[..] else { panic!("{closed}: {ran:?}") };
        assert!(out.starts_with("pipe:") && err.starts_with("pipe:") && out != err, "{closed}: {ran:?}");
        assert_eq!((ran.stderr(), ran.exit_code()), ("E\n", 0), "{closed}");
        assert_eq!(server.get("/").status, 200);
        server.execute("pwd").check(&format!("{}\n", server.base().display()), "", 0);
    }
}

#[test]
fn command_starts_in_the_base_directory() {
    // EC-01
    let base = TempDir::new();
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", format!("  {}/  ", base.path().display()));
    let server = Server::from_command(command, base);
    server.execute("pwd").check(&format!("{}\n", server.base().display()), "", 0);
    server.execute("touch marker").check("", "", 0);
    assert!(server.base().join("marker").exists());
}

#[test]
fn base_directory_may_have_any_name() {
    for name in [
        &b"with space"[..],
        b"line\nfeed",
        b"quo'\"te",
        b"\xff\xfe",
        b"$HOME;*",
        "\u{fc}\u{1f600}".as_bytes(),
    ] {
        let base = TempDir::new();
        let directory = base.path().join(OsStr::from_bytes(name));
        fs::create_dir(&directory).unwrap();
        let mut command = binary();
        command.env("SANDBOX_BASE_DIR", &directory);
        let server = Server::from_command(command, base);
        server.execute("touch marker").check("", "", 0);
        assert!(directory.join("marker").exists());
        let expected = format!("{}\n", directory.as_os_str().to_string_lossy());
        server.execute("sh -c 'pwd -P'").check(&expected, "", 0);
    }
}

#[test]
fn command_does_not_run_without_its_base_directory() {
    // EC-07
    let elsewhere = TempDir::new();
    let base = TempDir::new();
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", base.path()).current_dir(elsewhere.path());
    let server = Server::from_command(command, base);
    let name = server.base().display().to_string();
    server.execute("true").check("", "", 0);
    fs::remove_dir(server.base()).unwrap();
    server.execute("touch marker").check_not_run(&format!("[Errno 2] No such file or directory: '{name}'"));
    // A directory created later under the same name is a different one.
    fs::create_dir(server.base()).unwrap();
    server.execute("touch marker").check_not_run(&format!("[Errno 2] No such file or directory: '{name}'"));
    for directory in [elsewhere.path(), server.base(), Path::new("/")] {
        assert!(!directory.join("marker").exists(), "{}", directory.display());
    }
}

#[test]
fn base_directory_that_is_a_file_is_reported() {
    let base = TempDir::new();
    let file = base.path().join("file");
    fs::write(&file, "").unwrap();
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", &file);
    let server = Server::from_command(command, base);
    server.execute("true").check_not_run(&format!("[Errno 20] Not a directory: '{}'", file.display()));
}

#[test]
fn command_inherits_the_environment_byte_for_byte() {
    let base = TempDir::new();
    let mut command = binary();
    command
        .env("SANDBOX_BASE_DIR", base.path())
        .env("ODD_VALUE", OsStr::from_bytes(b"a=b\n\xff\x01'\"$x"))
        .env(OsStr::from_bytes(b"odd.name-\xfe"), "1")
        .env("EMPTY", "");
    let server = Server::from_command(command, base);
    server.execute("cp /proc/self/environ copy").check("", "", 0);
    let sorted = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        let mut variables: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        variables.sort();
        variables
    };
    let mut own = sorted(Path::new(&format!("/proc/{}/environ", server.pid())));
    own.retain(|variable| !variable.starts_with(b"SANDBOX_PARENT_PID="));
    let mut copy = sorted(&server.base().join("copy"));
    copy.retain(|variable| !variable.starts_with(b"SANDBOX_EXECUTION_ID="));
    assert!(copy == own, "a variable was added, removed or changed");
    assert!(own.contains(&b"ODD_VALUE=a=b\n\xff\x01'\"$x".to_vec()) && own.contains(&b"EMPTY=".to_vec()));
}

#[test]
fn empty_environment_works() {
    let base = TempDir::new();
    let mut command = binary();
    command.env_clear().env("SANDBOX_BASE_DIR", base.path());
    let server = Server::from_command(command, base);
    let ran = server.execute("env");
    assert!(ran.exit_code() == 0 && ran.stdout().lines().all(|line| line.starts_with("SANDBOX_")), "{ran:?}");
}

#[test]
fn command_inherits_umask_and_rlimits() {
    let base = TempDir::new();
    let script = "umask 027; ulimit -c 0; ulimit -Sn 333; ulimit -f 123456; exec \"$0\"";
    let server = Server::from_command(shell(script, base.path()), base);
    server.execute("sh -c umask").check("0027\n", "", 0);
    let own = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let ran = server.execute("cat /proc/self/limits");
    // The resident set limit identifies the execution.
    let others = |limits: &str| {
        let lines = limits.lines().filter(|line| !line.starts_with("Max resident set"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(others(ran.stdout()), others(&own));
    assert_eq!(others(&own).len() + 1, own.lines().count());
    let files = own.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("333"));
}
