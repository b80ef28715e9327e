//! The misbehaviour that `tests/box` needs inside a container without a shell: one small static program, one subcommand
//! each. It is only ever started by tests.

mod call;

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words.as_slice() {
        ["exit", code] => return Ok(code.parse::<u8>()?.into()),
        ["sleep", time] => thread::sleep(seconds(time)?),
        ["orphans", number, time, code] => return leave(number, time, code, Pipes::Closed),
        ["leave", number, time, code] => return leave(number, time, code, Pipes::Held),
        ["flood", bytes] => write(b"0123456789abcde\n", bytes.parse()?)?,
        ["nul", bytes] => write(&[0], bytes.parse()?)?,
        ["hog", mebibytes] => hog(mebibytes.parse()?),
        ["bomb", ..] => bomb(words.contains(&"escape"))?,
        ["burn", threads, time] => burn(threads.parse()?, seconds(time)?),
        ["escape", time] => {
            start(&["escaped", time], Pipes::Held)?;
            thread::sleep(seconds(time)?);
        }
        ["escaped", time] => {
            call::new_session()?;
            start(&["sleep", time], Pipes::Held)?;
        }
        ["signal", number, pid] => call::send(pid.parse()?, number.parse()?)?,
        ["storm", time, ref pids @ ..] => storm(seconds(time)?, pids)?,
        ["under", program, ref arguments @ ..] => return under(program, arguments),
        ["sparse", file, bytes] => fs::File::create(file)?.set_len(bytes.parse()?)?,
        ["link", target, name] => std::os::unix::fs::symlink(target, name)?,
        ["show", file] => io::stdout().write_all(&fs::read(file)?)?,
        ["errno", number] => {
            io::stdout().write_all(call::errno_of(number.parse()?).to_string().as_bytes())?
        }
        _ => return Err(format!("no such subcommand: {words:?}").into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn seconds(text: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

/// What a child does with the pipes of the command.
#[derive(Clone, Copy)]
enum Pipes {
    Held,
    Closed,
}

/// Starts this program again, with nothing in its environment.
fn start(words: &[&str], pipes: Pipes) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).env_clear();
    if let Pipes::Closed = pipes {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn()
}

/// Ends at once; the children do so after a while.
fn leave(number: &str, time: &str, code: &str, pipes: Pipes) -> Result<ExitCode> {
    for _ in 0..number.parse::<u32>()? {
        start(&["sleep", time], pipes)?;
    }
    io::stdout().write_all(b"left\n")?;
    Ok(code.parse::<u8>()?.into())
}

fn write(pattern: &[u8], bytes: u64) -> io::Result<()> {
    let piece = pattern.repeat((64 << 10) / pattern.len());
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut output = io::stdout().lock();
    while left > 0 {
        let (part, _) = piece.split_at(left.min(piece.len()));
        output.write_all(part)?;
        left -= part.len();
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

/// Starts itself again and again, as do they; where nothing more can be started it waits for room.
fn bomb(escapes: bool) -> Result<()> {
    if escapes {
        // The first leads a group, and so can have no session of its own; all that it starts can.
        let _first = call::new_session();
    }
    let words: &[&str] = if escapes { &["bomb", "escape"] } else { &["bomb"] };
    loop {
        if start(words, Pipes::Held).is_err() {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn burn(threads: usize, time: Duration) {
    let until = Instant::now() + time;
    let burn = move || while Instant::now() < until {};
    let burning: Vec<_> = (0..threads).map(|_| thread::spawn(burn)).collect();
    for thread in burning {
        // It can not have panicked.
        drop(thread.join());
    }
}

/// Signals that mean nothing to the server, without a pause.
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

/// Some other init: runs a program, reaps whatever is orphaned, ends as the program did.
fn under(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let child = Command::new(program).args(arguments).spawn()?.id();
    loop {
        let (pid, code) = call::reap()?;
        if u32::try_from(pid) == Ok(child) {
            return Ok(code.into());
        }
    }
}
