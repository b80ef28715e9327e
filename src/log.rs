//! One line an event, to standard error; the only file that prints.
//!
//! A line can not be forged: control characters are written as escapes, and every line is cut at a length that a pipe
//! takes whole (`PIPE_BUF`, pipe(7)). A reader of the log that stopped reading can not stop the server: what would
//! block is dropped and counted, and the count is told with the next line that gets through. The same complaint again and
//! again is told once in a while, with a count. Commands and credentials
//! are not logged at any level. There is no time in a line; Docker, the kubelet and journald each add their own.

use crate::sys::poll::{PollFd, poll};
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// How much is told; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Off,
    /// What makes the server useless.
    Error,
    /// What somebody should change.
    Warn,
    /// Starting and stopping.
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

const LONGEST_LINE_BYTES: usize = 4000;

/// A complaint that is the same as the last one is not told again within this time.
const REPEAT: Duration = Duration::from_secs(5);

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);
/// Held while writing, so that two lines never mix.
static STATE: Mutex<State> = Mutex::new(State { dropped: 0, complaint: None });

struct State {
    /// Lines dropped since the last one that was written.
    dropped: u64,
    /// The last error or warning.
    complaint: Option<Complaint>,
}

struct Complaint {
    line: String,
    told: Instant,
    repeated: u64,
}

/// Tells no more than this from now on.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

pub fn error(event: fmt::Arguments<'_>) {
    write(Level::Error, event);
}

pub fn warn(event: fmt::Arguments<'_>) {
    write(Level::Warn, event);
}

pub fn info(event: fmt::Arguments<'_>) {
    write(Level::Info, event);
}

pub fn debug(event: fmt::Arguments<'_>) {
    write(Level::Debug, event);
}

/// Answers the user on standard output: `--help`, `--version`.
///
/// # Errors
/// Whatever write(2) reports.
pub fn answer(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn write(level: Level, event: fmt::Arguments<'_>) {
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let line = line(level, event);
    // A thread that panicked while it wrote has left nothing half done that matters here.
    let mut state = STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if level <= Level::Warn && state.has_just_said(&line) {
        return;
    }
    if state.dropped > 0
        && print(&self::line(Level::Warn, format_args!("{} log lines were dropped", state.dropped)))
    {
        state.dropped = 0;
    }
    if state.dropped > 0 || !print(&line) {
        state.dropped += 1;
    }
}

impl State {
    /// Whether this complaint was told a moment ago; if so, it is counted. Before another one is told, so is the count.
    fn has_just_said(&mut self, line: &str) -> bool {
        if let Some(last) = &mut self.complaint {
            if last.line == line && last.told.elapsed() < REPEAT {
                last.repeated += 1;
                return true;
            }
            if last.repeated > 0
                && !print(&self::line(
                    Level::Warn,
                    format_args!("{} more of: {}", last.repeated, last.line.trim_end()),
                ))
            {
                self.dropped += 1;
            }
        }
        self.complaint = Some(Complaint { line: line.to_owned(), told: Instant::now(), repeated: 0 });
        false
    }
}

/// Writes a line if that can be done without waiting.
fn print(line: &str) -> bool {
    let stderr = io::stderr();
    let mut writable = [PollFd::writable(stderr.as_fd())];
    let ready = poll(&mut writable, Some(Instant::now()));
    // A standard error that is closed or broken counts as written: there is nobody to tell.
    ready.is_ok_and(|count| count > 0) && stderr.lock().write_all(line.as_bytes()).is_ok()
}

fn line(level: Level, event: fmt::Arguments<'_>) -> String {
    let mut line = Line(format!("sandbox-runtime: {}: ", level.name()));
    if write!(line, "{event}").is_err() {
        line.0.push_str("...");
    }
    line.0.push('\n');
    line.0
}

/// The text of one line: escapes what would move the cursor or begin another line, and ends at the longest length.
struct Line(String);

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.0.len() > LONGEST_LINE_BYTES {
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
    fn a_line_can_not_be_forged() {
        // LG-01
        let forged =
            line(Level::Info, format_args!("GET {}", "/a\nerror: FAKE\r\u{1b}[2J\u{7}\u{9b}\u{2028}"));
        assert_eq!(
            forged,
            "sandbox-runtime: info: GET /a\\nerror: FAKE\\r\\u{1b}[2J\\u{7}\\u{9b}\\u{2028}\n"
        );
    }

    #[test]
    fn a_line_is_short_enough_for_a_pipe_to_take_it_whole() {
        let long = line(Level::Warn, format_args!("{}", "\u{1b}".repeat(100_000)));
        assert!(long.len() < 4096 && long.ends_with("...\n"), "{}", long.len());
    }

    #[test]
    fn a_complaint_is_not_told_again_and_again() {
        let mut state = State { dropped: 0, complaint: None };
        let said: Vec<bool> = ["a", "a", "a", "b", "a"].map(|line| state.has_just_said(line)).to_vec();
        assert_eq!(said, [false, true, true, false, false]);
        assert_eq!(state.complaint.map(|complaint| complaint.repeated), Some(0));
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(Level::named("WARN"), Some(Level::Warn));
        assert_eq!(Level::named("loud"), None);
    }
}
