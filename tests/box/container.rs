//! A container for one test, with the strictest options, and its processes as the host sees them.

use kit::{Remote, eventually, eventually_some};
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

/// In addition to `APP`. The options of a test follow these, and override them.
const STRICTEST: &[&str] = &[
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--memory=256m",
    "--memory-swap=256m",
    "--pids-limit=256",
    "--env=SANDBOX_SHUTDOWN_GRACE_SECONDS=1",
    "--no-healthcheck",
];

/// A running container, removed on drop.
pub(crate) struct Container {
    name: String,
    remote: Remote,
    /// PID 1 of its process namespace, by its pid on the host.
    pid_1: u32,
}

impl Deref for Container {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

/// Serializes the tests that exhaust a resource or measure time. Other tests run beside them.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serializes everything that attaches a container to its network or detaches it: `docker run`, `docker rm`
/// and the end of a container. The Docker engine takes two locks of a network in both orders (20.10:
/// `getSvcRecords` and `processEndpointDelete`), so it can deadlock if two containers do that at once.
pub(crate) fn network_change() -> MutexGuard<'static, ()> {
    static CHANGE: Mutex<()> = Mutex::new(());
    CHANGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the Docker client and returns its output.
#[track_caller]
fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().expect("no Docker client");
    assert!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The runtime image, with our test program added.
fn image() -> String {
    std::env::var("SANDBOX_BOX_IMAGE")
        .expect("SANDBOX_BOX_IMAGE is not set; run .ci/box.sh, which builds the image")
}

impl Container {
    /// Starts one and waits until it accepts connections.
    pub(crate) fn start() -> Self {
        Self::with(&[], &[])
    }

    /// With these options of `docker run` and these arguments of the server.
    pub(crate) fn with(options: &[&str], arguments: &[&str]) -> Self {
        Self::with_app(&APP, options, arguments)
    }

    /// With other options for the base directory than `APP`.
    pub(crate) fn with_app(app: &[&str], options: &[&str], arguments: &[&str]) -> Self {
        let this = Self::without_server(&[app, options].concat(), arguments);
        let accepts = eventually(|| TcpStream::connect(this.address()).is_ok());
        assert!(accepts, "the container does not accept connections: {}", this.log());
        this
    }

    /// Starts one and waits for nothing.
    pub(crate) fn without_server(options: &[&str], arguments: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("sandbox-runtime-box-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let image = image();
        // By this label .ci/box.sh finds the containers of a killed test.
        let label = format!("--label=sandbox-runtime-box={image}");
        let run = ["run", "--detach", "--name", &name, &label];
        let _change = network_change();
        docker(&[&run[..], STRICTEST, options, &[&image], arguments].concat());
        let format = "{{.State.Pid}} {{.NetworkSettings.IPAddress}}";
        let state = docker(&["inspect", "--format", format, &name]);
        let (pid_1, address) = state.split_once(' ').unwrap();
        // Its own address, not a published port: no proxy accepts or closes connections for it.
        let address: IpAddr = address.parse().unwrap_or(Ipv4Addr::LOCALHOST.into());
        Self { remote: Remote((address, 8888).into()), pid_1: pid_1.parse().unwrap(), name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn log(&self) -> String {
        let output = Command::new("docker").args(["logs", &self.name]).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Sends a signal to PID 1 from outside, as `docker stop` and Kubernetes do.
    pub(crate) fn signal(&self, signal: &str) {
        docker(&["kill", "--signal", signal, &self.name]);
    }

    /// Runs a program in it and waits until it has ended. The program may end the container.
    pub(crate) fn exec(&self, arguments: &[&str]) {
        let exec = ["exec", &self.name];
        Command::new("docker").args([&exec[..], arguments].concat()).output().unwrap();
    }

    /// Waits until it has ended. The caller ends it, and holds [`network_change`] until this returns.
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
        ended.unwrap_or_else(|| panic!("the container did not exit: {}", self.log()))
    }

    /// All processes of its process namespace.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(self.pid_1);
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A zombie no longer has a namespace, its parent has.
        let processes = pids.filter_map(Process::of).filter(|process| {
            own.is_some()
                && namespace(process.pid).or_else(|| namespace(process.parent)).as_ref() == own.as_ref()
        });
        processes.collect()
    }

    /// Those with this text in their command line.
    pub(crate) fn processes_with(&self, text: &str) -> Vec<Process> {
        self.processes().into_iter().filter(|process| process.line.contains(text)).collect()
    }

    /// The server process, not the init process.
    #[track_caller]
    pub(crate) fn server(&self) -> Process {
        let is_server =
            |process: &Process| process.line.trim_start_matches('/').starts_with("sandbox-runtime serve");
        self.processes().into_iter().find(is_server).expect("no server process")
    }

    #[track_caller]
    pub(crate) fn check_no_zombies(&self) {
        let mut zombies = Vec::new();
        let is_clean = eventually(|| {
            zombies = self.processes().into_iter().filter(Process::is_zombie).collect();
            zombies.is_empty()
        });
        assert!(is_clean, "{zombies:?}");
    }

    /// Health responds within a second. Only for tests that are [`alone`].
    #[track_caller]
    pub(crate) fn check_health(&self) {
        let started = Instant::now();
        assert_eq!(self.get("/").status, 200);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    /// Checks health until all of this work is done.
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

    /// Runs a subcommand of our test program, which must exit with this code.
    #[track_caller]
    pub(crate) fn probe(&self, arguments: &str, exit_code: i64) -> String {
        let ran = self.execute(&format!("/probe {arguments}"));
        assert_eq!((ran.exit_code(), ran.stderr()), (exit_code, ""), "{arguments}: {ran:?}");
        ran.stdout().to_owned()
    }

    /// Runs one with a timeout, which must kill it. The response must not be late.
    #[track_caller]
    pub(crate) fn probe_times_out(&self, arguments: &str, timeout: Duration) {
        let request =
            json!({ "command": format!("/probe {arguments}"), "timeout_seconds": timeout.as_secs_f64() });
        let ran = self.execute_json(&request);
        assert_eq!(ran.json["timed_out"], true, "{arguments}: {ran:?}");
        // 0.8 s are promised. The machine may be busy with other tests.
        assert!(
            ran.took >= timeout && ran.took < timeout + Duration::from_secs(3),
            "{arguments}: {:?}",
            ran.took
        );
    }

    /// The resources that it uses now.
    #[track_caller]
    pub(crate) fn usage(&self) -> Usage {
        let server = self.server();
        Usage {
            processes: self.processes().len(),
            threads: server.entries("task"),
            descriptors: server.entries("fd"),
            resident_kib: server.kib("VmRSS:"),
        }
    }

    /// It uses no more than before, once idle threads have ended and connections are closed.
    #[track_caller]
    pub(crate) fn check_usage(&self, before: &Usage, more_kib: u64) {
        let mut now = self.usage();
        eventually(|| {
            now = self.usage();
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
        let _change = network_change();
        drop(Command::new("docker").args(["rm", "--force", "--volumes", &self.name]).output());
    }
}

/// The resources that a server uses.
#[derive(Debug)]
pub(crate) struct Usage {
    processes: usize,
    pub(crate) threads: usize,
    descriptors: usize,
    resident_kib: u64,
}

impl Usage {
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

    pub(crate) fn is_zombie(&self) -> bool {
        self.state == 'Z'
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Its pid in the container.
    pub(crate) fn inner_pid(&self) -> u32 {
        self.field("NSpid:").split_whitespace().last().unwrap().parse().unwrap()
    }

    /// A line of `/proc/<pid>/status`.
    pub(crate) fn field(&self, name: &str) -> String {
        let status = self.read("status");
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    }

    /// The same, if it is a number of KiB.
    pub(crate) fn kib(&self, name: &str) -> u64 {
        self.field(name).trim_end_matches(" kB").parse().unwrap()
    }

    fn entries(&self, name: &str) -> usize {
        fs::read_dir(self.path(name)).unwrap().count()
    }
}
