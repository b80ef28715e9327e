//! The sink of `POST /execute`: collects both output streams, and streams standard output as part of a JSON
//! string once there is more of it than the buffer holds.
//!
//! The response begins early if the command takes long, and keep-alive bytes follow if the client
//! half-closes: behind a proxy, only the second or third write shows that the client has disconnected. White
//! space before the JSON does not change it. Inside a JSON string there is no such byte, so a few bytes of
//! output are held back and sent one character at a time.

use super::super::{BodyWriter, DEFAULT_OUTPUT_BYTES, Limits, Sent};
use super::{errors, wire};
use crate::deadline::Deadline;
use crate::exec::{Capture, Captured, Channel, Flow, Sink, Watch};
use crate::http::response::Stream;
use crate::json::escape::push_escaped;
use std::io;
use std::time::Duration;

/// How much streamed output is held back, to be sent as keep-alive bytes.
const HELD_BYTES: usize = 8;

/// How much unlimited output may be pending during the drain without being streamed: more than a pipe holds,
/// so that all output written before the end is read before any time is spent on sending it.
const DRAIN_BUFFER_BYTES: usize = 2 << 20;

/// Output on its way into a response.
pub(super) struct ExecuteSink<'a> {
    writer: BodyWriter<'a>,
    stdout: Capture,
    stderr: Capture,
    /// Streaming begins when more than this is pending.
    buffer_bytes: usize,
    /// During the drain, only what exceeds this is streamed.
    drain_buffer_bytes: usize,
    /// Whether a part of standard output has been streamed.
    has_streamed: bool,
    is_draining: bool,
    keep_alive: KeepAlive,
    /// Reused for each part.
    json: Vec<u8>,
}

impl<'a> ExecuteSink<'a> {
    pub(super) fn new(writer: BodyWriter<'a>, limits: &Limits) -> Self {
        Self {
            writer,
            stdout: Capture::new(limits.output_bytes),
            stderr: Capture::new(Some(limits.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES))),
            buffer_bytes: limits.buffer_bytes,
            // Limited output fits into memory as a whole.
            drain_buffer_bytes: match limits.output_bytes {
                Some(_) => usize::MAX,
                None => limits.buffer_bytes.saturating_add(DRAIN_BUFFER_BYTES),
            },
            has_streamed: false,
            is_draining: false,
            keep_alive: KeepAlive::once_after(limits.commit_after),
            json: Vec::new(),
        }
    }

    /// Sends the response, or the rest of it.
    pub(super) fn finish(self, result: CommandResult) -> Sent {
        let output = Output::new(self.stdout.finish(), self.stderr.finish(), result, self.has_streamed);
        match self.writer.into_responder() {
            Ok(responder) => {
                let estimated_bytes = output.captured_bytes();
                responder.send(errors::ok_streamed(output, estimated_bytes))
            }
            Err(writer) => writer.finish(&output),
        }
    }

    /// Streams the output that is due, if the connection keeps up.
    fn advance(&mut self) -> Flow {
        if self.writer.has_pending() && self.writer.flush() == Flow::Disconnected {
            return Flow::Disconnected;
        }
        if !self.writer.has_pending() && self.is_due() {
            let count = self.stdout.streamable(HELD_BYTES).len();
            if self.stream(count) == Flow::Disconnected {
                return Flow::Disconnected;
            }
        }
        self.stdout_flow()
    }

    fn is_due(&self) -> bool {
        let may_be_pending = match (self.is_draining, self.has_streamed) {
            (true, _) => self.drain_buffer_bytes,
            (false, true) => 0,
            (false, false) => self.buffer_bytes,
        };
        self.stdout.pending().len() > may_be_pending
    }

    /// Streams the first bytes that are pending.
    fn stream(&mut self, count: usize) -> Flow {
        self.json.clear();
        if !self.has_streamed {
            self.has_streamed = true;
            // Writing to memory cannot fail.
            let _infallible = wire::begin_execute(&mut self.json);
        }
        push_escaped(self.stdout.pending().split_at(count).0, &mut self.json);
        self.stdout.streamed(count);
        if self.json.is_empty() { Flow::Continue } else { self.writer.push(&self.json) }
    }

    /// While the connection does not take pending bytes, the head of the output must not grow. Its tail is
    /// bounded.
    fn stdout_flow(&self) -> Flow {
        let must_wait = !self.is_draining || self.is_due();
        if must_wait && self.writer.has_pending() && self.stdout.is_in_head() {
            Flow::Pause
        } else {
            capture_flow(&self.stdout)
        }
    }
}

fn capture_flow(capture: &Capture) -> Flow {
    if capture.is_omitting() { Flow::Discard } else { Flow::Continue }
}

impl Sink for ExecuteSink<'_> {
    fn output(&mut self, channel: Channel, bytes: &[u8]) -> Flow {
        match channel {
            Channel::Stdout => {
                self.stdout.push(bytes);
                self.advance()
            }
            Channel::Stderr => {
                self.stderr.push(bytes);
                capture_flow(&self.stderr)
            }
        }
    }

    fn flush(&mut self) -> Flow {
        self.advance()
    }

    fn keep_alive(&mut self) -> Flow {
        self.keep_alive.sent();
        if self.writer.has_pending() {
            // The pending bytes show as well whether the client is connected.
            Flow::Continue
        } else if self.has_streamed {
            let count = self.stdout.next_character().len();
            self.stream(count)
        } else if self.writer.has_begun() {
            self.writer.push(b" ")
        } else {
            self.writer.push(b"")
        }
    }

    fn keep_alive_at(&self) -> Option<Deadline> {
        self.keep_alive.at
    }

    fn half_closed(&mut self) {
        self.keep_alive.repeat();
    }

    fn ended(&mut self) {
        self.is_draining = true;
    }

    fn watch(&self) -> Option<Watch<'_>> {
        let has_pending = self.writer.has_pending();
        // During the drain the connection matters only if the drain has to wait for it. Whether the client is
        // still there shows when the rest is sent.
        let is_relevant = !self.is_draining || (has_pending && self.is_due());
        is_relevant.then(|| Watch {
            connection: self.writer.connection(),
            is_half_closed: self.is_draining || self.keep_alive.repeats(),
            has_pending,
        })
    }
}

/// When keep-alive bytes are due: once after a while; and once the client has half-closed, at growing
/// intervals.
struct KeepAlive {
    at: Option<Deadline>,
    interval: Option<Duration>,
}

const FIRST_INTERVAL: Duration = Duration::from_millis(50);
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

impl KeepAlive {
    fn once_after(time: Duration) -> Self {
        Self { at: Some(Deadline::within(time)), interval: None }
    }

    /// At once, and again and again.
    fn repeat(&mut self) {
        *self = Self { at: Some(Deadline::within(Duration::ZERO)), interval: Some(FIRST_INTERVAL) };
    }

    fn repeats(&self) -> bool {
        self.interval.is_some()
    }

    fn sent(&mut self) {
        self.at = self.interval.map(Deadline::within);
        self.interval = self.interval.map(|interval| (interval * 2).min(LONGEST_INTERVAL));
    }
}

/// How a command ended, in the terms of the response.
#[derive(Debug, Default)]
pub(super) struct CommandResult {
    pub(super) exit_code: i32,
    pub(super) timed_out: bool,
    /// Appended to standard error: why the command did not end by itself.
    pub(super) message: String,
}

/// The output that has not been streamed, to be written as JSON.
#[derive(Debug)]
struct Output {
    stdout: Captured,
    stderr: Captured,
    /// The lines that stand for the omitted bytes of each stream.
    omissions: [String; 2],
    result: CommandResult,
    has_streamed: bool,
}

impl Output {
    fn new(stdout: Captured, stderr: Captured, result: CommandResult, has_streamed: bool) -> Self {
        let omissions = [&stdout, &stderr].map(|captured| match captured.omitted_bytes {
            0 => String::new(),
            bytes => format!("\n[... {bytes} bytes omitted ...]\n"),
        });
        Self { stdout, stderr, omissions, result, has_streamed }
    }

    fn captured_bytes(&self) -> usize {
        [&self.stdout, &self.stderr].iter().map(|captured| captured.head.len() + captured.tail.len()).sum()
    }
}

impl Stream for Output {
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if !self.has_streamed {
            wire::begin_execute(out)?;
        }
        let Self { stdout, stderr, omissions: [stdout_omission, stderr_omission], result, .. } = self;
        let response = wire::ExecuteResponse {
            stdout: &[&stdout.head, stdout_omission.as_bytes(), &stdout.tail],
            stderr: &[&stderr.head, stderr_omission.as_bytes(), &stderr.tail, result.message.as_bytes()],
            exit_code: result.exit_code,
            timed_out: result.timed_out,
            truncated: stdout.omitted_bytes > 0 || stderr.omitted_bytes > 0,
        };
        response.write_rest(out)
    }
}
