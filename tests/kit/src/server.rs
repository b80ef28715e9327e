//! A server for one test.

use crate::{Client, Response, TempDir, eventually, eventually_some, signal};
use serde_json::{Value, json};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A running server. It is killed when this goes out of scope.
#[derive(Debug)]
pub struct Server {
    child: Child,
    remote: Remote,
    base: TempDir,
    log: Arc<Mutex<String>>,
}

/// The address of a server, and requests to it.
#[derive(Clone, Copy, Debug)]
pub struct Remote(pub SocketAddr);

/// The directory into which cargo has built the server: it is above that of the test's own program.
pub(crate) fn build_directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().to_owned()
}

/// The server's program, not yet started.
pub fn binary() -> Command {
    Command::new(build_directory().join("sandbox-runtime"))
}

impl Server {
    /// Starts one on a new base directory.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts one with additional environment variables.
    pub fn with(variables: &[(&str, &str)]) -> Self {
        let base = TempDir::new();
        let mut command = binary();
        // At the end of a test, do not wait for commands that are still running.
        command.env("SANDBOX_SHUTDOWN_GRACE_SECONDS", "0");
        command.env("SANDBOX_BASE_DIR", base.path()).envs(variables.iter().copied());
        Self::from_command(command, base)
    }

    /// Starts this command, which must serve `base`, on a port that the system chooses.
    pub fn from_command(mut command: Command, base: TempDir) -> Self {
        command.env("SANDBOX_LISTEN", "127.0.0.1:0").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        collect_lines(BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
        let Some(address) = eventually_some(|| address_in(&log.lock().unwrap())) else {
            child.kill().unwrap();
            panic!("the server did not start: {}", log.lock().unwrap());
        };
        Self { child, remote: Remote(address), base, log }
    }

    /// Starts one whose log is not captured, on a port that was free a moment ago.
    pub fn without_log(mut command: Command, base: TempDir) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut child = command.env("SANDBOX_LISTEN", address.to_string()).spawn().unwrap();
        let accepts = eventually(|| TcpStream::connect(address).is_ok());
        assert!(accepts && child.try_wait().unwrap().is_none(), "the server did not start");
        Self { child, remote: Remote(address), base, log: Arc::default() }
    }

    /// The process that was started: it forwards signals and reaps.
    pub fn init_pid(&self) -> u32 {
        self.child.id()
    }

    /// The process that serves.
    pub fn pid(&self) -> u32 {
        let init = self.init_pid();
        let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
        // The server is the first child; orphans become children of the same process later.
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The base directory.
    pub fn base(&self) -> &Path {
        self.base.path()
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for the server to end by itself.
    pub fn wait(&mut self) -> ExitStatus {
        eventually_some(|| self.child.try_wait().unwrap()).expect("the server did not end")
    }

    /// Creates a program in the base directory. The server writes it, because a file that the test has open
    /// cannot be executed (`ETXTBSY`), not even while another thread of the test is between fork and exec.
    pub fn add_program(&self, name: &str, text: &str) {
        assert_eq!(self.upload(name, text.as_bytes()).status, 200);
        self.execute(&format!("chmod 755 {name}")).check("", "", 0);
    }

    /// A line of `/proc/<pid>/status`, in KiB.
    pub fn memory_kib(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_matches(|character: char| !character.is_ascii_digit()).parse().unwrap()
    }

    /// The largest amount of memory that it has used, in KiB.
    pub fn peak_memory_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    /// The number of its threads.
    pub fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().count()
    }

    /// The number of its open descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Sends a signal to the init process.
    pub fn signal(&self, name: &str) {
        signal(name, self.init_pid());
    }
}

/// Appends the lines of a log as they arrive.
fn collect_lines(mut lines: impl BufRead + Send + 'static, log: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            log.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
}

fn address_in(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once("listening on http://")?;
    rest.split_once(',').map(|(address, _)| address.parse().unwrap())
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Deref for Server {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

impl Remote {
    pub fn address(&self) -> SocketAddr {
        self.0
    }

    pub fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.0).unwrap())
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub fn request(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut client = self.connect();
        client.send_request(method, target, headers, body);
        client.response_to(method)
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.request("GET", target, &[], b"")
    }

    /// `POST /execute` with this text as its body.
    #[track_caller]
    pub fn execute_text(&self, body: &str) -> Response {
        self.request("POST", "/execute", &[("Content-Type", "application/json")], body.as_bytes())
    }

    /// Runs a command; the response must be a 200.
    #[track_caller]
    pub fn execute(&self, command: &str) -> Execution {
        self.execute_json(&json!({ "command": command }))
    }

    #[track_caller]
    pub fn execute_json(&self, request: &Value) -> Execution {
        let started = Instant::now();
        let response = self.execute_text(&request.to_string());
        let took = started.elapsed();
        assert_eq!(response.status, 200, "{response:?}");
        Execution { json: response.json(), took }
    }

    /// `POST /upload` of one file.
    #[track_caller]
    pub fn upload(&self, filename: &str, content: &[u8]) -> Response {
        let head =
            format!("--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{filename}\"\r\n\r\n");
        let body = [head.as_bytes(), content, b"\r\n--BB--\r\n"].concat();
        self.upload_body("multipart/form-data; boundary=BB", &body)
    }

    #[track_caller]
    pub fn upload_body(&self, content_type: &str, body: &[u8]) -> Response {
        self.request("POST", "/upload", &[("Content-Type", content_type)], body)
    }

    /// Sends these bytes and returns all bytes until the server closes the connection.
    #[track_caller]
    pub fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut client = self.connect();
        client.send(bytes);
        client.remaining()
    }

    /// The same, parsed; none of the requests may be a HEAD.
    #[track_caller]
    pub fn responses(&self, bytes: &[u8]) -> Vec<Response> {
        let mut client = self.connect();
        client.send(bytes);
        client.responses()
    }
}

/// The result of a command.
pub struct Execution {
    pub json: Value,
    /// From the request to the last byte of the response.
    pub took: Duration,
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = self.json.to_string();
        let start: String = json.chars().take(1000).collect();
        write!(f, "{start}{} in {:?}", if start.len() < json.len() { "..." } else { "" }, self.took)
    }
}

impl Execution {
    pub fn stdout(&self) -> &str {
        self.json["stdout"].as_str().unwrap()
    }

    pub fn stderr(&self) -> &str {
        self.json["stderr"].as_str().unwrap()
    }

    pub fn exit_code(&self) -> i64 {
        self.json["exit_code"].as_i64().unwrap()
    }

    /// Asserts all three, and that there are no other fields.
    #[track_caller]
    pub fn check(&self, stdout: &str, stderr: &str, exit_code: i64) {
        assert_eq!(self.json, json!({ "stdout": stdout, "stderr": stderr, "exit_code": exit_code }));
    }

    /// Asserts that the command could not be started, for this reason.
    #[track_caller]
    pub fn check_not_run(&self, reason: &str) {
        self.check("", &format!("Failed to execute command: {reason}"), 1);
    }
}
