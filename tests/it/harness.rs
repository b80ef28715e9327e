//! A server for one test, and a client that sends exactly what it is given.
//!
//! Every wait has a deadline, and nothing is left behind: the server is killed and its directory removed when it goes
//! out of scope.

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Long enough for a busy machine; what is awaited normally comes at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct Server {
    child: Child,
    remote: Remote,
    base: TempDir,
    log: Arc<Mutex<String>>,
}

/// Where a server is, and how to speak to it.
pub(crate) struct Remote(pub(crate) SocketAddr);

/// A directory that is removed with its content.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("sandbox-runtime-it-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The server's binary, to be started by hand.
pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sandbox-runtime"))
}

impl Server {
    /// Starts one on a fresh base directory.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts one with these variables besides.
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let base = TempDir::new();
        let mut command = binary();
        // A test that is over does not wait for the commands it has left running.
        command.env("SANDBOX_SHUTDOWN_GRACE_SECONDS", "0");
        command.env("SANDBOX_BASE_DIR", base.path()).envs(variables.iter().copied());
        Self::from_command(command, base)
    }

    /// Starts this command, which must serve `base`, on a port that the system chooses.
    pub(crate) fn from_command(mut command: Command, base: TempDir) -> Self {
        command.env("SANDBOX_LISTEN", "127.0.0.1:0").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                let mut line = Vec::new();
                while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    log.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                    line.clear();
                }
            }
        });
        let find_address = || {
            let log = log.lock().unwrap();
            let (_, rest) = log.split_once("listening on http://")?;
            rest.split_once(',').map(|(address, _)| address.parse().unwrap())
        };
        let Some(address) = eventually_some(find_address) else {
            child.kill().unwrap();
            panic!("the server did not start: {}", log.lock().unwrap());
        };
        Self { child, remote: Remote(address), base, log }
    }

    /// The process that was started: it forwards signals and reaps.
    pub(crate) fn init_pid(&self) -> u32 {
        self.child.id()
    }

    /// The process that serves.
    pub(crate) fn pid(&self) -> u32 {
        let init = self.init_pid();
        let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
        // Orphans become children of the same process, later.
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The base directory.
    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    /// What the server has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for the server to end by itself.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        eventually_some(|| self.child.try_wait().unwrap()).expect("the server did not end")
    }
}

impl Deref for Server {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

impl Remote {
    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.0).unwrap())
    }

    /// One request on a connection of its own.
    pub(crate) fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut client = self.connect();
        client.send_request(method, target, headers, body);
        client.answer_to(method)
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.request("GET", target, &[], b"")
    }

    /// `POST /execute` with this text as its body.
    pub(crate) fn execute_text(&self, body: &str) -> Answer {
        self.request("POST", "/execute", &[("Content-Type", "application/json")], body.as_bytes())
    }

    /// Runs a command; the answer must be a 200.
    #[track_caller]
    pub(crate) fn execute(&self, command: &str) -> Ran {
        self.execute_json(&json!({ "command": command }))
    }

    #[track_caller]
    pub(crate) fn execute_json(&self, request: &Value) -> Ran {
        let started = Instant::now();
        let answer = self.execute_text(&request.to_string());
        let took = started.elapsed();
        assert_eq!(answer.status, 200, "{answer:?}");
        Ran { json: answer.json(), took }
    }

    /// `POST /upload` of one file.
    pub(crate) fn upload(&self, filename: &str, content: &[u8]) -> Answer {
        let head =
            format!("--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{filename}\"\r\n\r\n");
        let body = [head.as_bytes(), content, b"\r\n--BB--\r\n"].concat();
        self.upload_body("multipart/form-data; boundary=BB", &body)
    }

    pub(crate) fn upload_body(&self, content_type: &str, body: &[u8]) -> Answer {
        self.request("POST", "/upload", &[("Content-Type", content_type)], body)
    }

    /// Sends these bytes and returns all that comes until the server closes the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut client = self.connect();
        client.send(bytes);
        client.rest()
    }

    /// The same, taken apart; none of the requests may be a HEAD.
    pub(crate) fn answers(&self, bytes: &[u8]) -> Vec<Answer> {
        let mut client = self.connect();
        client.send(bytes);
        client.answers()
    }
}

impl Server {
    /// Starts one whose log nobody can read, on a port that was free a moment ago.
    pub(crate) fn unheard(mut command: Command, base: TempDir) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut child = command.env("SANDBOX_LISTEN", address.to_string()).spawn().unwrap();
        let answers = eventually(|| TcpStream::connect(address).is_ok());
        assert!(answers && child.try_wait().unwrap().is_none(), "the server did not start");
        Self { child, remote: Remote(address), base, log: Arc::default() }
    }

    /// Puts a program into the base directory. The test's own process never has it open: it would be busy for as long
    /// as another test is between fork and exec.
    pub(crate) fn add_program(&self, name: &str, text: &str) {
        assert_eq!(self.upload(name, text.as_bytes()).status, 200);
        self.execute(&format!("chmod 755 {name}")).check("", "", 0);
    }

    /// A line of `/proc/<pid>/status`, in kB.
    pub(crate) fn memory_kb(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_matches(|character: char| !character.is_ascii_digit()).parse().unwrap()
    }

    /// How many threads it has.
    pub(crate) fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().count()
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Sends a signal to the process above the server.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.init_pid());
    }

    /// The most memory that it has used at any time, in KiB.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        self.memory_kb("VmHWM:")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What running a command gave.
pub(crate) struct Ran {
    pub(crate) json: Value,
    /// From the request to the last byte of the answer.
    pub(crate) took: Duration,
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let json = self.json.to_string();
        let cut: String = json.chars().take(1000).collect();
        write!(f, "{cut}{} in {:?}", if cut.len() < json.len() { "..." } else { "" }, self.took)
    }
}

impl Ran {
    pub(crate) fn stdout(&self) -> &str {
        self.json["stdout"].as_str().unwrap()
    }

    pub(crate) fn stderr(&self) -> &str {
        self.json["stderr"].as_str().unwrap()
    }

    pub(crate) fn exit_code(&self) -> i64 {
        self.json["exit_code"].as_i64().unwrap()
    }

    /// All three, and nothing else.
    #[track_caller]
    pub(crate) fn check(&self, stdout: &str, stderr: &str, exit_code: i64) {
        assert_eq!(self.json, json!({ "stdout": stdout, "stderr": stderr, "exit_code": exit_code }));
    }

    /// The command could not run, for this reason.
    #[track_caller]
    pub(crate) fn check_not_run(&self, reason: &str) {
        self.check("", &format!("Failed to execute command: {reason}"), 1);
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, input: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn send_request(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.send(&[head.as_bytes(), body].concat());
    }

    /// The next answer on this connection, to a request that was no HEAD.
    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    pub(crate) fn answer_to(&mut self, method: &str) -> Answer {
        let head = self.until_blank_line();
        let mut lines = head.lines();
        let status_line = lines.next().unwrap();
        let status = status_line.split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        if method == "HEAD" || status == 304 || status < 200 {
            return answer;
        }
        answer.body = match (answer.header("content-length"), answer.header("transfer-encoding")) {
            (Some(length), None) => self.take(length.parse().unwrap()),
            (None, Some("chunked")) => self.chunks(),
            (None, None) => self.rest(),
            other => panic!("a body of two minds: {other:?}"),
        };
        answer
    }

    /// Everything that still comes, up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.stream.read_to_end(&mut self.input).unwrap();
        std::mem::take(&mut self.input)
    }

    /// Whether the server has closed this connection and nothing more comes.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.input.is_empty() && uninterrupted(|| self.stream.read(&mut [0])).is_ok_and(|count| count == 0)
    }

    /// Puts back what was read from the stream by hand.
    pub(crate) fn unread(&mut self, bytes: Vec<u8>) {
        self.input.splice(..0, bytes);
    }

    fn fill(&mut self) {
        let mut piece = vec![0; 64 << 10];
        let count = uninterrupted(|| self.stream.read(&mut piece)).unwrap();
        assert!(count > 0, "the connection ended after {:?}", String::from_utf8_lossy(&self.input));
        self.input.extend_from_slice(&piece[..count]);
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.input.len() < length {
            self.fill();
        }
        self.input.drain(..length).collect()
    }

    fn until_blank_line(&mut self) -> String {
        loop {
            if let Some(end) = self.input.windows(4).position(|window| window == b"\r\n\r\n") {
                return String::from_utf8(self.take(end + 4)).unwrap();
            }
            self.fill();
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.input.windows(2).position(|window| window == b"\r\n") {
                return String::from_utf8(self.take(end + 2)).unwrap().trim_end().to_owned();
            }
            self.fill();
        }
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(&self.line(), 16).unwrap();
            body.extend(self.take(size));
            assert_eq!(self.take(2), b"\r\n");
            if size == 0 {
                return body;
            }
        }
    }

    /// Waits for the next byte, without taking it. `false`: the connection has ended.
    pub(crate) fn wait_for_input(&self) -> bool {
        uninterrupted(|| self.stream.peek(&mut [0])).unwrap() > 0
    }

    /// Begins `POST /execute` of this command.
    pub(crate) fn send_command(&mut self, command: &str) {
        let body = json!({ "command": command }).to_string();
        self.send_request("POST", "/execute", &[("Content-Type", "application/json")], body.as_bytes());
    }

    /// Every answer up to the end of the connection.
    pub(crate) fn answers(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while !self.input.is_empty() || self.wait_for_input() {
            answers.push(self.answer());
        }
        answers
    }
}

/// An answer, complete.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (cut, rest) = self.body.split_at(self.body.len().min(1000));
        write!(f, "{} {:?} {}", self.status, self.headers, cut.escape_ascii())?;
        f.write_str(if rest.is_empty() { "" } else { "..." })
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status and the JSON.
    #[track_caller]
    pub(crate) fn check(&self, status: u16, json: &Value) {
        assert_eq!((self.status, &self.json()), (status, json));
    }
}

/// Waits until it is true; whether it became so.
pub(crate) fn eventually(mut is_true: impl FnMut() -> bool) -> bool {
    eventually_some(|| is_true().then_some(())).is_some()
}

/// Waits until there is something.
pub(crate) fn eventually_some<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return Some(found);
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes whose command line contains this text, without those that are dead already.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let is_alive = |path: &Path| {
        let state = fs::read_to_string(path.join("stat")).unwrap_or_default();
        state
            .rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.trim().is_empty())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (line.contains(text) && is_alive(&entry.path())).then_some(pid)
        })
        .collect()
}

/// Sends a signal to a process, which may be gone.
pub(crate) fn signal(name: &str, pid: u32) {
    drop(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).output().unwrap());
}

/// Processes that wait in vain to be reaped by this one.
pub(crate) fn zombies_of(parent: u32) -> usize {
    let stats = fs::read_dir("/proc").unwrap().flatten();
    let stats = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(&format!(" Z {parent} "))))
        .count()
}

/// Whether a program of this name is on PATH: some tests need more than a shell.
pub(crate) fn has_program(name: impl AsRef<OsStr>) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name.as_ref()).is_file())
}

/// Whether a test must go without this program. Only where nobody looks (CI) is that a failure.
#[track_caller]
pub(crate) fn lacks(program: &str) -> bool {
    let is_there = has_program(program);
    assert!(is_there || std::env::var_os("CI").is_none(), "this test needs {program}, and CI must have it");
    if !is_there {
        eprintln!("skipped: there is no {program}");
    }
    !is_there
}

/// `sleep` for this many seconds and a trifle, by which [`processes_with`] knows it from all others.
pub(crate) fn own_sleep(seconds: u32) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("sleep {seconds}.0{:07}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Tells the threads of a test to stop when it goes out of scope, by a failure too, which would otherwise wait for them.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A socket with a time limit gives `EINTR` for signals that do nothing else (signal(7)).
pub(crate) fn uninterrupted(mut call: impl FnMut() -> std::io::Result<usize>) -> std::io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
