//! What a process can restrict by itself: open files, namespaces, resources, privileges, and its lifetime.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, RawFd};

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use crate::limits::{JailLimits, JailRules, ThreadPermission};

/// Closes all inherited descriptors except the standard streams, and replaces standard output. Later prints are
/// discarded; only the returned file leads to the parent.
pub(crate) fn take_stdout() -> io::Result<File> {
    close_inherited()?;
    let answer = io::stdout().as_fd().try_clone_to_owned()?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(File::from(answer))
}

/// Closes descriptors that the parent inherited itself and passes on to its children. Rust marks its own as
/// close-on-exec.
#[allow(unsafe_code, reason = "closing a descriptor by its number has no safe form")]
fn close_inherited() -> io::Result<()> {
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    // The descriptor that listed the directory is in the list but already closed. Closing it again would be a bug.
    let is_open = |number: &RawFd| fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    for number in open.into_iter().filter(is_open) {
        // SAFETY: this runs at the start of `main`, with one thread and before our code owns a descriptor.
        unsafe { rustix::io::close(number) };
    }
    Ok(())
}

/// Enters new namespaces. A PID namespace is not used: it would only affect child processes, and it forbids threads.
#[allow(unsafe_code, reason = "leaving namespaces is marked unsafe for a flag that is not used here")]
pub(super) fn leave_namespaces(limits: &JailLimits) -> Result<(), String> {
    let mut flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    if limits.threads == ThreadPermission::None {
        flags |= UnshareFlags::NEWPID;
    }
    // SAFETY: the descriptor table is not unshared (no `FILES`), which is the only unsafe case.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|error| error.to_string())
}

pub(super) fn limit_resources(rules: &JailRules) -> Result<(), String> {
    set_limits(rules).map_err(|error| error.to_string())
}

fn set_limits(rules: &JailRules) -> io::Result<()> {
    let limits = &rules.limits;
    let cpu = limits.cpu.as_secs() + u64::from(limits.cpu.subsec_nanos() > 0);
    // The soft limit sends a signal that tells a worker that is out of time from one that was killed. The hard limit
    // is a second later.
    set_limit(Resource::Cpu, cpu, cpu + 1)?;
    let memory = own_address_space_bytes()?.saturating_add(limits.memory);
    set_limit(Resource::As, memory, memory)?;
    set_limit(Resource::Fsize, 0, 0)?;
    set_limit(Resource::Core, 0, 0)?;
    // The standard streams, the result and `/dev/null`; some more if files may be read.
    let files = if rules.read.is_empty() { 5 } else { 64 };
    set_limit(Resource::Nofile, files, files)?;
    if limits.threads == ThreadPermission::None {
        set_limit(Resource::Nproc, 0, 0)?;
    }
    Ok(())
}

fn set_limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    // Raising a limit needs privileges, so a lower inherited limit stays.
    let inherited = rustix::process::getrlimit(resource).maximum;
    let lower = |wanted: u64| Some(inherited.map_or(wanted, |inherited| wanted.min(inherited)));
    let limit = Rlimit { current: lower(soft), maximum: lower(hard) };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

/// The address space the program takes before it does any work.
fn own_address_space_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text
        .split(' ')
        .next()
        .and_then(|pages| pages.parse().ok())
        .ok_or_else(|| io::Error::other("the size of the process cannot be told"))?;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}

pub(super) fn drop_privileges() -> Result<(), String> {
    let nothing = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, nothing)
        .and_then(|()| rustix::thread::set_no_new_privs(true))
        .and_then(|()| rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .map_err(|error| error.to_string())
}

/// The kernel sends the signal when the thread that started this process ends. If that happened before this call, the
/// process now has another parent.
pub(super) fn die_with_parent(parent: u32) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| error.to_string())?;
    let now = rustix::process::getppid().map(Pid::as_raw_nonzero);
    if now.is_some_and(|now| u32::try_from(now.get()) == Ok(parent)) {
        Ok(())
    } else {
        Err("the process that started this one is gone".to_string())
    }
}
