//! seccomp: the system calls a worker may make. All others fail with `EPERM`.
//!
//! The list has what a single-threaded Rust program needs to read a pipe, allocate, compute, and write a pipe. It has
//! no sockets, no new processes or programs, no signals to other processes, and no tracing. Without readable files,
//! nothing can be opened or looked up by name. No memory can become executable.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::limits::{JailRules, ThreadPermission};

/// Calls that are allowed with any arguments.
const ALLOWED_SYSCALLS: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Older calls that some architectures still have, allowed with any arguments.
#[cfg(target_arch = "x86_64")]
const ALLOWED_SYSCALLS_OF_ARCH: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_SYSCALLS_OF_ARCH: &[libc::c_long] = &[];

/// Calls needed to read files. Landlock decides which files.
const FILE_READING_SYSCALLS: &[libc::c_long] =
    &[libc::SYS_faccessat, libc::SYS_getdents64, libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_statx];

type SyscallConditions = BTreeMap<i64, Vec<SeccompRule>>;

pub(super) fn install_seccomp(rules: &JailRules) -> Result<(), String> {
    apply_filters(rules).map_err(|error| error.to_string())
}

fn apply_filters(rules: &JailRules) -> Result<(), seccompiler::Error> {
    let threads = rules.limits.threads == ThreadPermission::Some;
    let allowed = allowed_syscalls(rules, threads)?;
    if threads {
        // `clone3` passes its flags behind a pointer, which a filter cannot read. If it fails with `ENOSYS`, the C
        // library uses `clone`. Of two filters, the stricter result applies.
        let newer: SyscallConditions = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        seccompiler::apply_filter(&compile_filter(newer, SeccompAction::Allow, absent)?)?;
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    seccompiler::apply_filter(&compile_filter(allowed, refused, SeccompAction::Allow)?)
}

fn compile_filter(
    calls: SyscallConditions,
    otherwise: SeccompAction,
    action: SeccompAction,
) -> Result<BpfProgram, seccompiler::Error> {
    let processor = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(calls, otherwise, action, processor)?.try_into()?)
}

fn allowed_syscalls(rules: &JailRules, threads: bool) -> Result<SyscallConditions, seccompiler::Error> {
    let mut calls: SyscallConditions =
        ALLOWED_SYSCALLS.iter().chain(ALLOWED_SYSCALLS_OF_ARCH).map(|call| (*call, Vec::new())).collect();
    // Memory that is not executable.
    let not_code = |argument| argument_masked(argument, libc::PROT_EXEC.unsigned_abs().into(), 0);
    calls.insert(libc::SYS_mmap, vec![not_code(2)?]);
    calls.insert(libc::SYS_mprotect, vec![not_code(2)?]);
    // Reading descriptor flags, but not duplicating descriptors.
    let asks = [libc::F_GETFD, libc::F_GETFL].map(|what| argument_equals(1, what.unsigned_abs().into()));
    calls.insert(libc::SYS_fcntl, asks.into_iter().collect::<Result<_, _>>()?);
    // `abort` signals its own process only.
    calls.insert(libc::SYS_tgkill, vec![argument_equals(0, std::process::id().into())?]);
    if !rules.read.is_empty() {
        calls.extend(FILE_READING_SYSCALLS.iter().map(|call| (*call, Vec::new())));
        // Opening for reading: no flag that writes, creates or truncates.
        let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;
        calls.insert(libc::SYS_openat, vec![argument_masked(2, writes.unsigned_abs().into(), 0)?]);
    }
    if threads {
        let thread = libc::CLONE_THREAD.unsigned_abs().into();
        calls.insert(libc::SYS_clone, vec![argument_masked(0, thread, thread)?]);
        calls.insert(libc::SYS_clone3, Vec::new());
    }
    Ok(calls)
}

fn argument_equals(argument: u8, value: u64) -> Result<SeccompRule, seccompiler::Error> {
    argument_condition(argument, SeccompCmpOp::Eq, value)
}

fn argument_masked(argument: u8, mask: u64, value: u64) -> Result<SeccompRule, seccompiler::Error> {
    argument_condition(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn argument_condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::Error> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::JailLimits;

    fn rules(read: &[&str], threads: ThreadPermission) -> JailRules {
        JailRules {
            limits: JailLimits { threads, ..JailLimits::default() },
            read: read.iter().map(Into::into).collect(),
            leave_out: Vec::new(),
            parent: 1,
        }
    }

    #[test]
    fn what_reaches_outside_is_on_no_list() {
        let outside = [
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_socketpair,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_kill,
            libc::SYS_unlinkat,
            libc::SYS_renameat2,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_memfd_create,
            libc::SYS_prlimit64,
            libc::SYS_ioctl,
        ];
        for threads in [ThreadPermission::None, ThreadPermission::Some] {
            for read in [&[][..], &["/usr"][..]] {
                let allowed = allowed_syscalls(&rules(read, threads), threads == ThreadPermission::Some)
                    .expect("a list");
                assert!(outside.iter().all(|call| !allowed.contains_key(call)));
            }
        }
    }

    #[test]
    fn nothing_can_be_opened_unless_something_may_be_read() {
        let opens = |read: &[&str]| {
            allowed_syscalls(&rules(read, ThreadPermission::None), false)
                .expect("a list")
                .contains_key(&libc::SYS_openat)
        };
        assert!(!opens(&[]));
        assert!(opens(&["/usr/share"]));
    }

    #[test]
    fn the_filter_fits_the_kernel() {
        for threads in [ThreadPermission::None, ThreadPermission::Some] {
            let calls = allowed_syscalls(&rules(&["/usr"], threads), true).expect("a list");
            compile_filter(calls, SeccompAction::Errno(1), SeccompAction::Allow).expect("a program");
        }
    }
}
