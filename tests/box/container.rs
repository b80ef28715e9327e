//! A container for one test, under the hardest flags, and what the host sees of its processes.

use crate::harness::{Remote, eventually, eventually_some};
use serde_json::json;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The writable directory of most tests.
const APP: [&str; 2] = ["--tmpfs", "/app:rw,exec,nosuid,nodev,size=64m,uid=1000,gid=1000,mode=0755"];

/// Besides `APP`. What a test gives comes later, and so wins.
const HARDEST: &[&str] = &[
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--memory=256m",
    "--memory-swap=256m",
    "--pids-limit=256",
    "--env=SANDBOX_SHUTDOWN_GRACE_SECONDS=1",
    "--no-healthcheck",
];

/// A running container; it is removed when it goes out of scope.
pub(crate) struct Container {
    name: String,
    remote: Remote,
    /// The first process of its process namespace, by the host's number.
    first: u32,
}

impl Deref for Container {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

/// For tests that take all there is, or look at the clock: one at a time, beside those that do neither.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For whatever makes a container join its network or leave it, by `docker run`, by `docker rm`, or by ending. The Docker
/// engine takes two locks of its network in either order (20.10: `getSvcRecords` against `processEndpointDelete`), so when
/// that happens to two containers at once it can stop for good.
pub(crate) fn joining_or_leaving() -> MutexGuard<'static, ()> {
    static NETWORK: Mutex<()> = Mutex::new(());
    NETWORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the Docker client; what it prints.
#[track_caller]
fn docker(words: &[&str]) -> String {
    let output = Command::new("docker").args(words).output().expect("there is no Docker client");
    assert!(output.status.success(), "docker {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The runtime image with our own test program in it.
fn image() -> String {
    std::env::var("SANDBOX_BOX_IMAGE")
        .expect("SANDBOX_BOX_IMAGE must name the image that .ci/box.sh makes; run that instead")
}

impl Container {
    /// Starts one and waits until it answers.
    pub(crate) fn start() -> Self {
        Self::with(&[], &[])
    }

    /// Starts one with these options of `docker run` and these arguments of the server.
    pub(crate) fn with(options: &[&str], arguments: &[&str]) -> Self {
        Self::on(&APP, options, arguments)
    }

    /// The same, on something else than `APP`.
    pub(crate) fn on(app: &[&str], options: &[&str], arguments: &[&str]) -> Self {
        let this = Self::unheard(&[app, options].concat(), arguments);
        let answers = eventually(|| TcpStream::connect(this.address()).is_ok());
        assert!(answers, "the container does not answer: {}", this.log());
        this
    }

    /// Starts one that nobody waits for.
    pub(crate) fn unheard(options: &[&str], arguments: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("sandbox-runtime-box-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let image = image();
        // .ci/box.sh finds by its label what a test that was killed has left.
        let label = format!("--label=sandbox-runtime-box={image}");
        let run = ["run", "--detach", "--name", &name, &label];
        let _joining = joining_or_leaving();
        docker(&[&run[..], HARDEST, options, &[&image], arguments].concat());
        let format = "{{.State.Pid}} {{.NetworkSettings.IPAddress}}";
        let state = docker(&["inspect", "--format", format, &name]);
        let (first, address) = state.split_once(' ').unwrap();
        // Its own address, not a published port: nothing in between takes or ends connections on its behalf.
        let address: IpAddr = address.parse().unwrap_or(Ipv4Addr::LOCALHOST.into());
        Self { remote: Remote((address, 8888).into()), first: first.parse().unwrap(), name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn log(&self) -> String {
        let output = Command::new("docker").args(["logs", &self.name]).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Sends a signal from outside to its first process, as `docker stop` and Kubernetes do.
    pub(crate) fn signal(&self, signal: &str) {
        docker(&["kill", "--signal", signal, &self.name]);
    }

    /// Runs a program in it from outside, to its end, which may be that of the container too.
    pub(crate) fn exec(&self, words: &[&str]) {
        let exec = ["exec", &self.name];
        Command::new("docker").args([&exec[..], words].concat()).output().unwrap();
    }

    /// The exit status, once it has ended. Whoever ends it holds [`joining_or_leaving`] until then.
    #[track_caller]
    pub(crate) fn exit_code(&self) -> i32 {
        let ended = eventually_some(|| {
            let state = docker(&[
                "inspect",
                "--format",
                "{{if not .State.Running}}{{.State.ExitCode}}{{end}}",
                &self.name,
            ]);
            state.parse().ok()
        });
        ended.unwrap_or_else(|| panic!("the container did not end: {}", self.log()))
    }

    /// Everything in its process namespace.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(self.first);
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A zombie has no namespace any more, but its parent has.
        let processes = pids.filter_map(Process::of).filter(|process| {
            own.is_some()
                && namespace(process.pid).or_else(|| namespace(process.parent)).as_ref() == own.as_ref()
        });
        processes.collect()
    }

    /// Those whose command line has this text.
    pub(crate) fn processes_with(&self, text: &str) -> Vec<Process> {
        self.processes().into_iter().filter(|process| process.line.contains(text)).collect()
    }

    /// The process that serves.
    #[track_caller]
    pub(crate) fn server(&self) -> Process {
        let serves =
            |process: &Process| process.line.trim_start_matches('/').starts_with("sandbox-runtime serve");
        self.processes().into_iter().find(serves).expect("no process serves")
    }

    #[track_caller]
    pub(crate) fn check_no_zombies(&self) {
        let mut zombies = Vec::new();
        let none = eventually(|| {
            zombies = self.processes().into_iter().filter(Process::is_dead).collect();
            zombies.is_empty()
        });
        assert!(none, "{zombies:?}");
    }

    /// Health, at once. Only for tests that are [`alone`].
    #[track_caller]
    pub(crate) fn check_health(&self) {
        let started = Instant::now();
        assert_eq!(self.get("/").status, 200);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    /// Asks for health until all of this work is done.
    #[track_caller]
    pub(crate) fn healthy_during<T: Send>(&self, work: &[&(dyn Fn() -> T + Sync)]) -> Vec<T> {
        thread::scope(|scope| {
            let threads: Vec<_> = work.iter().map(|work| scope.spawn(work)).collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                self.check_health();
                thread::sleep(Duration::from_millis(20));
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Runs a command of our test program; it must end with this code.
    #[track_caller]
    pub(crate) fn probe(&self, words: &str, exit_code: i64) -> String {
        let ran = self.execute(&format!("/probe {words}"));
        assert_eq!((ran.exit_code(), ran.stderr()), (exit_code, ""), "{words}: {ran:?}");
        ran.stdout().to_owned()
    }

    /// The same, with a time limit that it must meet. The answer has to come in time.
    #[track_caller]
    pub(crate) fn probe_times_out(&self, words: &str, timeout: Duration) {
        let request =
            json!({ "command": format!("/probe {words}"), "timeout_seconds": timeout.as_secs_f64() });
        let ran = self.execute_json(&request);
        assert_eq!(ran.json["timed_out"], true, "{words}: {ran:?}");
        // 0.8 s are promised; the machine may be busy with other tests.
        assert!(
            ran.took >= timeout && ran.took < timeout + Duration::from_secs(3),
            "{words}: {:?}",
            ran.took
        );
    }

    /// What it costs now.
    #[track_caller]
    pub(crate) fn cost(&self) -> Cost {
        let server = self.server();
        Cost {
            processes: self.processes().len(),
            threads: server.entries("task"),
            descriptors: server.entries("fd"),
            resident_kib: server.kib("VmRSS:"),
        }
    }

    /// That it costs no more than before, once idle threads and closed connections are gone.
    #[track_caller]
    pub(crate) fn check_cost(&self, before: &Cost, more_kib: u64) {
        let mut now = self.cost();
        eventually(|| {
            now = self.cost();
            now.is_within(before, more_kib)
        });
        assert!(now.is_within(before, more_kib), "{before:?} became {now:?}");
        println!("{before:?} became {now:?}");
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}: {}", self.name, self.log());
        }
        let _leaving = joining_or_leaving();
        drop(Command::new("docker").args(["rm", "--force", "--volumes", &self.name]).output());
    }
}

/// What a server costs.
#[derive(Debug)]
pub(crate) struct Cost {
    processes: usize,
    threads: usize,
    descriptors: usize,
    resident_kib: u64,
}

impl Cost {
    fn is_within(&self, before: &Self, more_kib: u64) -> bool {
        self.processes <= before.processes
            && self.threads <= before.threads
            && self.descriptors <= before.descriptors
            && self.resident_kib <= before.resident_kib + more_kib
    }
}

/// A process, as the host sees it.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    parent: u32,
    state: char,
    line: String,
}

impl Process {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some(Self { pid, parent, state, line })
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(name)
    }

    /// A zombie.
    pub(crate) fn is_dead(&self) -> bool {
        self.state == 'Z'
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Its number in its own namespace.
    pub(crate) fn inner_pid(&self) -> u32 {
        self.field("NSpid:").split_whitespace().last().unwrap().parse().unwrap()
    }

    /// A line of `/proc/<pid>/status`.
    pub(crate) fn field(&self, name: &str) -> String {
        let status = self.read("status");
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    }

    /// The same, where it is a number of KiB.
    pub(crate) fn kib(&self, name: &str) -> u64 {
        self.field(name).trim_end_matches(" kB").parse().unwrap()
    }

    fn entries(&self, name: &str) -> usize {
        fs::read_dir(self.path(name)).unwrap().count()
    }
}
