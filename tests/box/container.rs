//! A container for one test, with the strictest options.

use crate::gvisor::is_gvisor;
use crate::inspector::{Inspector, Process};
use kit::{Remote, eventually, eventually_some};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::ops::Deref;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
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
    /// Started when a test first looks at processes: before it exhausts anything.
    inspector: OnceLock<Inspector>,
    /// The most memory that the server had at any sample, where the kernel does not report it.
    sampled_peak_kib: AtomicU64,
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

/// The runtime of the Docker engine that runs the containers.
pub(crate) fn runtime() -> String {
    std::env::var("SANDBOX_BOX_RUNTIME").unwrap_or_else(|_| "runc".to_owned())
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
        let runtime = format!("--runtime={}", runtime());
        let run = ["run", "--detach", "--name", &name, &label, &runtime];
        let _change = network_change();
        docker(&[&run[..], STRICTEST, options, &[&image], arguments].concat());
        let address = docker(&["inspect", "--format", "{{.NetworkSettings.IPAddress}}", &name]);
        // Its own address, not a published port: no proxy accepts or closes connections for it.
        let address: IpAddr = address.parse().unwrap_or(Ipv4Addr::LOCALHOST.into());
        Self {
            remote: Remote((address, 8888).into()),
            inspector: OnceLock::new(),
            sampled_peak_kib: AtomicU64::new(0),
            name,
        }
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

    /// Runs a program in it and waits until the program or the container has ended.
    pub(crate) fn exec(&self, arguments: &[&str]) {
        let exec = ["exec", &self.name];
        let mut client = Command::new("docker").args([&exec[..], arguments].concat()).spawn().unwrap();
        // In gVisor, the client of a container that has ended waits forever.
        eventually(|| client.try_wait().unwrap().is_some() || self.ended().is_some());
        drop(client.kill());
        client.wait().unwrap();
    }

    /// The exit code, if it has ended.
    fn ended(&self) -> Option<i32> {
        let format = "{{if not .State.Running}}{{.State.ExitCode}}{{end}}";
        docker(&["inspect", "--format", format, &self.name]).parse().ok()
    }

    /// Waits until it has ended. The caller ends it, and holds [`network_change`] until this returns.
    #[track_caller]
    pub(crate) fn exit_code(&self) -> i32 {
        let ended = eventually_some(|| self.ended());
        ended.unwrap_or_else(|| panic!("the container did not exit: {}", self.log()))
    }

    fn inspector(&self) -> &Inspector {
        self.inspector.get_or_init(|| Inspector::start(&self.name))
    }

    /// All processes of its process namespace.
    #[track_caller]
    pub(crate) fn processes(&self) -> Vec<Process> {
        self.inspector().processes()
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
                self.sample_memory();
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
        let (server, inspector) = (self.server(), self.inspector());
        Usage {
            processes: self.processes().len(),
            threads: inspector.count(&server, "task"),
            descriptors: inspector.count(&server, "fd"),
            resident_kib: inspector.kib(&server, "VmRSS:"),
        }
    }

    /// The most memory that the server has had.
    #[track_caller]
    pub(crate) fn peak_kib(&self) -> u64 {
        if is_gvisor() {
            self.sample_memory();
            self.sampled_peak_kib.load(Ordering::Relaxed)
        } else {
            self.inspector().kib(&self.server(), "VmHWM:")
        }
    }

    /// See [`PeakMemory`](crate::gvisor::Property::PeakMemory).
    #[track_caller]
    fn sample_memory(&self) {
        if is_gvisor() {
            let now = self.inspector().kib(&self.server(), "VmRSS:");
            self.sampled_peak_kib.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// How readily the kernel kills the server when memory runs out.
    #[track_caller]
    pub(crate) fn oom_score(&self) -> i32 {
        self.inspector().read(&self.server(), "oom_score_adj").trim().parse().unwrap()
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
    pub(crate) threads: u64,
    descriptors: u64,
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
