//! The log: one line an event, to standard error. The only file that prints.
//!
//! A line cannot be forged: control characters are escaped, and a line is truncated to a length that a pipe
//! accepts whole (`PIPE_BUF`, pipe(7)). A stalled reader never blocks the server: a line that would block is
//! dropped and counted, and the count precedes the next line that can be written. A repeated error or warning
//! is logged once in a while, with a count. Commands and credentials are not logged at any level. Lines have
//! no time: Docker, the kubelet and journald add their own.

use crate::sys::poll::{PollFd, poll};
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which events are logged. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Off,
    /// The server cannot do its work.
    Error,
    /// An operator should act.
    Warn,
    /// Startup and shutdown.
    Info,
    /// One line a request: method, path, status, time.
    Debug,
}

impl Level {
    pub const NAMES: &str = "off, error, warn, info or debug";

    /// The level of this name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug];
        all.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// The longest event; the line around it is short enough for `PIPE_BUF`.
const MAX_EVENT_BYTES: usize = 4000;

/// An error or a warning is not repeated within this time.
const REPEAT: Duration = Duration::from_secs(5);

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);
/// Locked while a line is written, so that lines never mix.
static LOG: Mutex<Log> = Mutex::new(Log { dropped: 0, last: None });

struct Log {
    /// Lines dropped since the last one that was written.
    dropped: u64,
    /// The last error or warning.
    last: Option<Complaint>,
}

/// An error or a warning.
struct Complaint {
    level: Level,
    text: String,
    logged: Instant,
    /// How often it was suppressed since then.
    repeats: u64,
}

/// Whether a complaint is written.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// It is a repeat, and has been counted.
    Suppress,
    Write,
    /// This line comes first: the number of repeats of the complaint before.
    WriteAfter(String),
}

/// Sets the level of this process.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

pub fn error(event: fmt::Arguments<'_>) {
    log(Level::Error, event);
}

pub fn warn(event: fmt::Arguments<'_>) {
    log(Level::Warn, event);
}

pub fn info(event: fmt::Arguments<'_>) {
    log(Level::Info, event);
}

pub fn debug(event: fmt::Arguments<'_>) {
    log(Level::Debug, event);
}

/// Prints to standard output, for `--help` and `--version`.
///
/// # Errors
/// Those of write(2).
pub fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn log(level: Level, event: fmt::Arguments<'_>) {
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let text = escaped(event);
    // A thread that panicked while it held the lock has left no inconsistent state.
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    if level <= Level::Warn {
        match log.decide(level, &text, Instant::now()) {
            Decision::Suppress => return,
            Decision::Write => {}
            Decision::WriteAfter(repeats) => log.write(&repeats),
        }
    }
    log.write(&line(level, &text));
}

impl Log {
    fn decide(&mut self, level: Level, text: &str, now: Instant) -> Decision {
        if let Some(last) = &mut self.last
            && (last.level, last.text.as_str()) == (level, text)
            && now.duration_since(last.logged) < REPEAT
        {
            last.repeats += 1;
            return Decision::Suppress;
        }
        let complaint = Complaint { level, text: text.to_owned(), logged: now, repeats: 0 };
        match self.last.replace(complaint) {
            Some(Complaint { level, text, repeats, .. }) if repeats > 0 => {
                let repeats = escaped(format_args!("last message repeated {repeats} times: {text}"));
                Decision::WriteAfter(line(level, &repeats))
            }
            _ => Decision::Write,
        }
    }

    /// Writes a line, after the number of lines dropped before it, or drops it.
    fn write(&mut self, line: &str) {
        if self.dropped > 0 {
            let dropped = format!("{} log lines were dropped", self.dropped);
            if write_now(&self::line(Level::Warn, &dropped)) {
                self.dropped = 0;
            }
        }
        if self.dropped > 0 || !write_now(line) {
            self.dropped += 1;
        }
    }
}

/// Writes a line if that does not block. Returns whether it was written.
fn write_now(line: &str) -> bool {
    let stderr = io::stderr();
    let mut writable = [PollFd::writable(stderr.as_fd())];
    let ready = poll(&mut writable, Some(Instant::now()));
    ready.is_ok_and(|count| count > 0) && stderr.lock().write_all(line.as_bytes()).is_ok()
}

fn line(level: Level, text: &str) -> String {
    format!("sandbox-runtime: {}: {text}\n", level.name())
}

fn escaped(event: fmt::Arguments<'_>) -> String {
    let mut text = Text(String::new());
    if write!(text, "{event}").is_err() {
        text.0.push_str("...");
    }
    text.0
}

/// The text of one event. Escapes characters that move the cursor or begin another line, and refuses more
/// than the longest event.
struct Text(String);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.0.len() > MAX_EVENT_BYTES {
                return Err(fmt::Error);
            }
            if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
                self.0.extend(character.escape_default());
            } else {
                self.0.push(character);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_be_forged() {
        // LG-01
        let forged = escaped(format_args!("GET {}", "/a\nerror: FAKE\r\u{1b}[2J\u{7}\u{9b}\u{2028}"));
        assert_eq!(
            line(Level::Info, &forged),
            "sandbox-runtime: info: GET /a\\nerror: FAKE\\r\\u{1b}[2J\\u{7}\\u{9b}\\u{2028}\n"
        );
    }

    #[test]
    fn a_line_fits_into_pipe_buf() {
        let long = line(Level::Error, &escaped(format_args!("{}", "\u{1b}".repeat(100_000))));
        assert!(long.len() < 4096 && long.ends_with("...\n"), "{}", long.len());
    }

    #[test]
    fn a_repeated_complaint_is_counted() {
        let mut log = Log { dropped: 0, last: None };
        let now = Instant::now();
        let mut decide =
            |text: &str, seconds: u64| log.decide(Level::Warn, text, now + Duration::from_secs(seconds));
        let repeats = |line: &str| Decision::WriteAfter(format!("sandbox-runtime: warn: {line}\n"));
        assert_eq!(decide("a", 0), Decision::Write);
        assert_eq!(decide("a", 1), Decision::Suppress);
        assert_eq!(decide("a", 4), Decision::Suppress);
        assert_eq!(decide("b", 4), repeats("last message repeated 2 times: a"));
        assert_eq!(decide("a", 4), Decision::Write);
        assert_eq!(decide("a", 8), Decision::Suppress);
        assert_eq!(decide("a", 9), repeats("last message repeated 1 times: a"));
    }

    #[test]
    fn a_complaint_of_another_level_is_not_a_repeat() {
        let mut log = Log { dropped: 0, last: None };
        let now = Instant::now();
        assert_eq!(log.decide(Level::Warn, "a", now), Decision::Write);
        assert_eq!(log.decide(Level::Error, "a", now), Decision::Write);
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(Level::named("WARN"), Some(Level::Warn));
        assert_eq!(Level::named("loud"), None);
    }
}
