//! What a worker may use, and which walls stand around it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How much a worker may use. It is ended when it wants more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailLimits {
    /// From the start of the child to its answer.
    pub wall: Duration,
    /// Time on a processor, counted in whole seconds, rounded up.
    pub cpu: Duration,
    /// Bytes of address space beyond what the program itself takes.
    pub memory: u64,
    /// Bytes of the input.
    pub input: usize,
    /// Bytes of the answer.
    pub output: usize,
    /// Whether the worker may start threads. Each reserves address space for its stack and its heap.
    pub threads: ThreadPermission,
    /// How many children work at once. More wait.
    pub at_once: usize,
    /// How many calls may wait for their turn. More are turned away.
    pub waiting: usize,
}

/// Whether a worker may start threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadPermission {
    /// It works alone.
    None,
    /// It may start some.
    Some,
}

impl Default for JailLimits {
    /// Five seconds, 128 MiB, a megabyte in, 64 KiB out, two at once.
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

/// What the child is told about its own jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailRules {
    /// What it may use.
    pub limits: JailLimits,
    /// Files and directories it may read. Normally none.
    pub read: Vec<PathBuf>,
    /// Walls that are not put up, so that a test can see the others hold by themselves. The parent still refuses a
    /// child whose walls are too few.
    pub leave_out: Vec<IsolationLayer>,
    /// The process that started it. A child whose parent is another one has been orphaned and leaves.
    pub parent: u32,
}

impl JailRules {
    /// Whether these walls are enough to let input in.
    ///
    /// The list of allowed system calls alone keeps a worker from files, sockets and processes, because it can open
    /// nothing at all. A worker that may read some files must be able to open, so then Landlock must hold too.
    pub(crate) fn is_satisfied_by(&self, layers: &[IsolationLayer]) -> bool {
        layers.contains(&IsolationLayer::SystemCalls)
            && (self.read.is_empty() || layers.contains(&IsolationLayer::Landlock))
    }
}

/// A wall around a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLayer {
    /// Own user, network, mount, IPC and host-name namespaces. Often refused inside containers.
    Namespaces,
    /// No file can be opened, made or run, no TCP port used, no outside process signalled.
    Landlock,
    /// Only listed system calls: no sockets, no new processes or programs, no tracing, no new executable memory.
    SystemCalls,
    /// Processor time, address space, file size, open files, processes, core dumps.
    ResourceLimits,
    /// No capability is left, and none can be gained.
    NoPrivileges,
    /// The kernel ends the child when its parent ends.
    DiesWithParent,
}

impl IsolationLayer {
    /// Every wall there is.
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
