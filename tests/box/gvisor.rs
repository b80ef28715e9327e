//! The differences of gVisor, each with its reason. gVisor is a kernel of its own: it has other system calls,
//! and a few processes of the host hold everything that a container runs.

use crate::container::{Container, network_change, runtime};

/// A property of Linux that gVisor does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    /// The engine's seccomp profiles filter system calls.
    Seccomp,
    /// `/proc/<pid>/status` has `VmHWM`.
    PeakMemory,
    /// Signals from inside a container do not kill or stop its PID 1 (pid_namespaces(7)).
    ProtectedInit,
    /// A limit of processes bounds what commands can start.
    ProcessLimit,
    /// A command that uses all memory is killed alone.
    MemoryLimit,
    /// Containers can share a process namespace.
    SharedProcesses,
}

use Property::{MemoryLimit, PeakMemory, ProcessLimit, ProtectedInit, Seccomp, SharedProcesses};

const DIFFERENCES: &[(Property, &str)] = &[
    (Seccomp, "runsc applies no seccomp profile to the processes of a container"),
    (PeakMemory, "its /proc/<pid>/status has only the memory of now"),
    (ProtectedInit, "SIGKILL from a process of the same user ends it"),
    (ProcessLimit, "--pids-limit counts the threads of gVisor itself, which exits when it can start no more"),
    (MemoryLimit, "the host kills a process of gVisor, and with it the container"),
    (SharedProcesses, "every container has a kernel of its own"),
];

/// Missing in gVisor, so all tests there run without them. Name and number on x86-64.
pub(crate) const MISSING_CALLS: [(&str, i64); 2] = [("openat2", 437), ("pidfd_open", 434)];

/// The tests run in gVisor with `.ci/box.sh IMAGE --runtime runsc`.
pub(crate) fn is_gvisor() -> bool {
    runtime() == "runsc"
}

/// Whether a test must do without this property. Its output has the reason.
pub(crate) fn lacks(property: Property) -> bool {
    if !is_gvisor() {
        return false;
    }
    let difference = DIFFERENCES.iter().find(|(name, _)| *name == property);
    let (name, reason) = difference.expect("every property has a reason");
    println!("{name:?} is missing: {reason}");
    true
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn table_of_differences_is_current() {
    if !is_gvisor() {
        return;
    }
    let container = Container::start();
    assert!(!container.probe("show /proc/self/status", 0).contains("VmHWM"), "{PeakMemory:?}");
    let _change = network_change();
    container.exec(&["/probe", "signal", "9", "1"]);
    assert_eq!(container.exit_code(), 137, "{ProtectedInit:?}");
}
