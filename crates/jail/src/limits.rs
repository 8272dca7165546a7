//! Resource limits of a worker, and its isolation layers.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How much a worker may use. A worker that exceeds a limit is killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailLimits {
    /// Wall-clock time from the start of the child to its result.
    pub wall: Duration,
    /// CPU time, rounded up to whole seconds.
    pub cpu: Duration,
    /// Bytes of address space, in addition to those of the program itself.
    pub memory: u64,
    /// The longest input, in bytes.
    pub input: usize,
    /// The longest result, in bytes.
    pub output: usize,
    /// Whether the worker may start threads. Each thread reserves address space for its stack and heap.
    pub threads: ThreadPermission,
    /// How many children run at once. Further calls wait.
    pub at_once: usize,
    /// How many calls may wait. Further calls fail with `Busy`.
    pub waiting: usize,
}

/// Whether a worker may start threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadPermission {
    /// No threads.
    None,
    /// Threads are allowed.
    Some,
}

impl Default for JailLimits {
    /// Five seconds, 128 MiB of memory, 1 MB of input, 64 KiB of output, two children at once.
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(5),
            cpu: Duration::from_secs(5),
            memory: 128 << 20,
            input: 1 << 20,
            output: 64 << 10,
            threads: ThreadPermission::None,
            at_once: 2,
            waiting: 64,
        }
    }
}

/// The rules that the parent sends to a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailRules {
    /// The resource limits.
    pub limits: JailLimits,
    /// Files and directories the worker may read. Normally none.
    pub read: Vec<PathBuf>,
    /// Layers that are not activated, so that a test can check that the others are sufficient alone. The parent still
    /// rejects a child with too few layers.
    pub leave_out: Vec<IsolationLayer>,
    /// The process id of the parent. A child that has another parent is orphaned and exits.
    pub parent: u32,
}

impl JailRules {
    /// Whether these layers are sufficient to process input.
    ///
    /// The system call filter alone keeps a worker from files, sockets and processes, because the worker cannot open
    /// anything. A worker that may read files must be able to open them, so it also needs Landlock.
    pub(crate) fn is_satisfied_by(&self, layers: &[IsolationLayer]) -> bool {
        layers.contains(&IsolationLayer::SystemCalls)
            && (self.read.is_empty() || layers.contains(&IsolationLayer::Landlock))
    }
}

/// An isolation layer around a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLayer {
    /// Separate user, network, mount, IPC and host-name namespaces. Often not permitted inside containers.
    Namespaces,
    /// No file can be opened, created or executed, no TCP port used, no outside process signalled.
    Landlock,
    /// Only listed system calls: no sockets, no new processes or programs, no tracing, no new executable memory.
    SystemCalls,
    /// Limits on CPU time, address space, file size, open files, processes and core dumps.
    ResourceLimits,
    /// No capabilities, and no way to gain any.
    NoPrivileges,
    /// The kernel kills the child when its parent ends.
    DiesWithParent,
}

impl IsolationLayer {
    /// All layers.
    pub const ALL: [Self; 6] = [
        Self::Namespaces,
        Self::Landlock,
        Self::SystemCalls,
        Self::ResourceLimits,
        Self::NoPrivileges,
        Self::DiesWithParent,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(read: &[&str], layers: &[IsolationLayer], enough: bool) {
        let rules = JailRules {
            limits: JailLimits::default(),
            read: read.iter().map(PathBuf::from).collect(),
            leave_out: Vec::new(),
            parent: 1,
        };
        assert_eq!(rules.is_satisfied_by(layers), enough, "{read:?} {layers:?}");
    }

    #[test]
    fn without_the_list_of_calls_nothing_is_enough() {
        check(&[], &IsolationLayer::ALL, true);
        check(&[], &[IsolationLayer::SystemCalls], true);
        check(
            &[],
            &[IsolationLayer::Landlock, IsolationLayer::Namespaces, IsolationLayer::ResourceLimits],
            false,
        );
        check(&[], &[], false);
    }

    #[test]
    fn a_worker_that_may_read_files_needs_landlock_too() {
        check(&["/usr/share"], &[IsolationLayer::SystemCalls], false);
        check(&["/usr/share"], &[IsolationLayer::SystemCalls, IsolationLayer::Landlock], true);
    }
}
