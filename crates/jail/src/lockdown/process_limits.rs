//! What a process can give up by itself: open files, namespaces, resources, privileges, and life without its parent.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, RawFd};

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use crate::limits::{JailLimits, JailRules, ThreadPermission};

/// Closes what was inherited beyond the three standard streams, and moves the way to the parent out of reach: what is
/// printed from now on goes nowhere, only the file that is handed back leads out.
pub(crate) fn take_stdout() -> io::Result<File> {
    close_inherited()?;
    let answer = io::stdout().as_fd().try_clone_to_owned()?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(File::from(answer))
}

/// A descriptor that the parent itself inherited without asking passes on to every child. Rust marks its own.
#[allow(unsafe_code, reason = "closing a descriptor by its number has no safe form")]
fn close_inherited() -> io::Result<()> {
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    // The one that listed the directory is in the list and closed by now; closing it again would be a bug.
    let is_open = |number: &RawFd| fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    for number in open.into_iter().filter(is_open) {
        // SAFETY: this runs first thing in `main`, with one thread and before anything of ours holds a descriptor.
        unsafe { rustix::io::close(number) };
    }
    Ok(())
}

/// Own namespaces. The one for processes would hold for children only, of which there are none, and forbids threads.
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
    // SAFETY: the table of descriptors is not unshared (no `FILES`), which is all that could go wrong.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|error| error.to_string())
}

pub(super) fn limit_resources(rules: &JailRules) -> Result<(), String> {
    set_limits(rules).map_err(|error| error.to_string())
}

fn set_limits(rules: &JailRules) -> io::Result<()> {
    let limits = &rules.limits;
    let cpu = limits.cpu.as_secs() + u64::from(limits.cpu.subsec_nanos() > 0);
    // Soft first: it tells a worker that is out of time from one that was killed. Hard a second later.
    set_limit(Resource::Cpu, cpu, cpu + 1)?;
    let memory = own_address_space_bytes()?.saturating_add(limits.memory);
    set_limit(Resource::As, memory, memory)?;
    set_limit(Resource::Fsize, 0, 0)?;
    set_limit(Resource::Core, 0, 0)?;
    // The three standard streams, the answer, `/dev/null`; a few more where files may be read.
    let files = if rules.read.is_empty() { 5 } else { 64 };
    set_limit(Resource::Nofile, files, files)?;
    if limits.threads == ThreadPermission::None {
        set_limit(Resource::Nproc, 0, 0)?;
    }
    Ok(())
}

fn set_limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    // A limit can be lowered by anyone and raised by few: an inherited lower one stays.
    let inherited = rustix::process::getrlimit(resource).maximum;
    let lower = |wanted: u64| Some(inherited.map_or(wanted, |inherited| wanted.min(inherited)));
    let limit = Rlimit { current: lower(soft), maximum: lower(hard) };
    Ok(rustix::process::setrlimit(resource, limit)?)
}

/// The address space the program takes before it has done anything.
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

/// The kernel sends the signal when the thread that started us ends. If it had ended before we asked, our parent is
/// another process by now.
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
