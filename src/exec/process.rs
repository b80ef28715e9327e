//! A command that has been started: its child process and the read ends of its pipes.

use super::tag::Tag;
use crate::sys::poll::PollFd;
use crate::sys::process::{Pid, has_ended, pidfd};
use std::os::fd::{AsFd, OwnedFd};

/// A started command.
pub(super) struct Process {
    pub(super) child: Child,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// A child that has not been reaped, so its pid and the number of its process group stay reserved.
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) tag: Tag,
    pub(super) has_ended: bool,
    /// Readable once the child has ended. `None` on an old kernel, behind a filter, or out of descriptors;
    /// then the child is checked at intervals.
    pidfd: Option<OwnedFd>,
}

impl Child {
    pub(super) fn new(pid: Pid, tag: Tag) -> Self {
        Self { pid, tag, has_ended: false, pidfd: pidfd(pid).ok() }
    }

    /// Whether only repeated checks will show that it has ended.
    pub(super) fn needs_checks(&self) -> bool {
        self.pidfd.is_none() && !self.has_ended
    }

    pub(super) fn slot(&self) -> PollFd<'_> {
        let pidfd = self.pidfd.as_ref().filter(|_| !self.has_ended);
        pidfd.map_or(PollFd::nothing(), |pidfd| PollFd::readable(pidfd.as_fd()))
    }

    /// Notes whether it has ended, given whether its slot is ready.
    pub(super) fn update(&mut self, is_ready: bool) {
        self.has_ended |= is_ready || (self.needs_checks() && has_ended(self.pid).unwrap_or(true));
    }
}
