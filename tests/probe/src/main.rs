//! The programs that `tests/box` runs in a container without a shell, most of them misbehaving: one small
//! static binary with a subcommand for each. It is used only by tests.

mod call;
mod inspect;

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["exit", code] => return Ok(code.parse::<u8>()?.into()),
        ["sleep", time] => thread::sleep(seconds(time)?),
        ["orphans", count, time, code] => return background(count, time, code, Pipes::Closed),
        ["background", count, time, code] => return background(count, time, code, Pipes::Inherited),
        ["flood", bytes] => write(b"0123456789abcde\n", bytes.parse()?)?,
        ["nul", bytes] => write(&[0], bytes.parse()?)?,
        ["hog", mebibytes] => hog(mebibytes.parse()?),
        ["bomb"] => bomb(&["bomb"])?,
        ["bomb", "escape"] => {
            // A group leader, as the first process is, cannot start a session (setsid(2)). All its children
            // can.
            let _first = call::new_session();
            bomb(&["bomb", "escape"])?;
        }
        ["burn", threads, time] => burn(threads.parse()?, seconds(time)?),
        ["escape", time] => {
            start(&["escaped", time], Pipes::Inherited)?;
            thread::sleep(seconds(time)?);
        }
        ["escaped", time] => {
            call::new_session()?;
            start(&["sleep", time], Pipes::Inherited)?;
        }
        ["inspect"] => inspect::serve()?,
        ["signal", number, pid] => call::send(pid.parse()?, number.parse()?)?,
        ["storm", time, ref pids @ ..] => storm(seconds(time)?, pids)?,
        ["init", program, ref arguments @ ..] => return init(program, arguments),
        ["sparse", file, bytes] => fs::File::create(file)?.set_len(bytes.parse()?)?,
        ["link", target, name] => std::os::unix::fs::symlink(target, name)?,
        ["show", file] => io::stdout().write_all(&fs::read(file)?)?,
        ["errno", number] => {
            io::stdout().write_all(call::errno_of(number.parse()?).to_string().as_bytes())?
        }
        _ => return Err(format!("unknown subcommand: {arguments:?}").into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn seconds(text: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

/// The standard streams of a child.
#[derive(Clone, Copy)]
enum Pipes {
    Inherited,
    Closed,
}

/// Starts this program with an empty environment.
fn start(arguments: &[&str], pipes: Pipes) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).env_clear();
    if let Pipes::Closed = pipes {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn()
}

/// Starts children that sleep, and exits before they do.
fn background(count: &str, time: &str, code: &str, pipes: Pipes) -> Result<ExitCode> {
    for _ in 0..count.parse::<u32>()? {
        start(&["sleep", time], pipes)?;
    }
    io::stdout().write_all(b"started\n")?;
    Ok(code.parse::<u8>()?.into())
}

fn write(pattern: &[u8], bytes: u64) -> io::Result<()> {
    let piece = pattern.repeat((64 << 10) / pattern.len());
    let mut remaining = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut output = io::stdout().lock();
    while remaining > 0 {
        let (part, _) = piece.split_at(remaining.min(piece.len()));
        output.write_all(part)?;
        remaining -= part.len();
    }
    output.flush()
}

fn hog(mebibytes: usize) {
    let mut kept = Vec::new();
    for _ in 0..mebibytes {
        kept.push(black_box(vec![1_u8; 1 << 20]));
    }
    black_box(&kept);
}

/// Starts copies of itself, which do the same. Retries when the process limit is reached.
fn bomb(arguments: &[&str]) -> Result<()> {
    loop {
        if start(arguments, Pipes::Inherited).is_err() {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn burn(threads: usize, time: Duration) {
    let until = Instant::now() + time;
    let burn = move || while Instant::now() < until {};
    let burning: Vec<_> = (0..threads).map(|_| thread::spawn(burn)).collect();
    for thread in burning {
        // It cannot have panicked.
        drop(thread.join());
    }
}

/// Sends signals that the server ignores, without a pause.
fn storm(time: Duration, pids: &[&str]) -> Result<()> {
    let pids = pids.iter().map(|pid| pid.parse()).collect::<std::result::Result<Vec<i32>, _>>()?;
    let until = Instant::now() + time;
    while Instant::now() < until {
        for pid in &pids {
            for signal in [libc::SIGCHLD, libc::SIGWINCH, libc::SIGUSR1] {
                call::send(*pid, signal)?;
            }
        }
    }
    Ok(())
}

/// Another init process: runs a program, reaps orphans, exits as the program did.
fn init(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let child = Command::new(program).args(arguments).spawn()?.id();
    loop {
        let (pid, code) = call::reap()?;
        if u32::try_from(pid) == Ok(child) {
            return Ok(code.into());
        }
    }
}
