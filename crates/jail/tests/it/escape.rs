//! Ways out, all closed.

use std::net::TcpListener;
use std::path::PathBuf;

use doran_jail::{IsolationLayer, JailError, JailLimits, ThreadPermission, WorkerCall};

use crate::{check, jail};

#[tokio::test]
async fn an_honest_worker_answers() {
    check(&jail(JailLimits::default()), "echo 안녕", "안녕").await;
    check(&jail(JailLimits::default()), "echo ", "").await;
}

#[tokio::test]
async fn files_cannot_be_read_written_listed_or_looked_up() {
    let jail = jail(JailLimits::default());
    for what in
        ["read /etc/passwd", "read /proc/self/environ", "read /proc/self/mem", "list /", "look /etc/passwd"]
    {
        check(&jail, what, "PermissionDenied").await;
    }
    let place = tempfile::tempdir().expect("a directory");
    let kept = place.path().join("kept");
    std::fs::write(&kept, "kept").expect("write");
    for what in ["write", "remove"] {
        check(&jail, &format!("{what} {}", kept.display()), "PermissionDenied").await;
    }
    check(&jail, &format!("write {}", place.path().join("new").display()), "PermissionDenied").await;
    assert_eq!(std::fs::read_to_string(&kept).expect("read"), "kept");
}

#[tokio::test]
async fn the_list_of_calls_alone_keeps_files_out() {
    let jail = jail(JailLimits::default()).without_layers(&[
        IsolationLayer::Landlock,
        IsolationLayer::Namespaces,
        IsolationLayer::NoPrivileges,
    ]);
    for what in ["read /etc/passwd", "list /", "look /etc/passwd", "write /tmp/doran-jail-broken"] {
        check(&jail, what, "PermissionDenied").await;
    }
}

#[tokio::test]
async fn landlock_keeps_out_what_is_not_listed() {
    let place = tempfile::tempdir().expect("a directory");
    let place = place.path().canonicalize().expect("a path");
    let (open, closed) = (place.join("open"), place.join("closed"));
    std::fs::create_dir(&open).expect("create");
    std::fs::write(open.join("a"), "a").expect("write");
    std::fs::write(&closed, "b").expect("write");
    let jail = jail(JailLimits::default()).with_readable([open.clone()]);
    if jail.layers("__attempt").await.is_err() {
        eprintln!("SKIPPED: no Landlock on this machine / 이 기계에는 Landlock이 없음");
        return;
    }
    check(&jail, &format!("read {}", open.join("a").display()), "broke out: [97]").await;
    check(&jail, &format!("write {}", open.join("a").display()), "PermissionDenied").await;
    check(&jail, &format!("write {}", open.join("b").display()), "PermissionDenied").await;
    check(&jail, &format!("read {}", closed.display()), "PermissionDenied").await;
    check(&jail, "read /etc/passwd", "PermissionDenied").await;
}

#[tokio::test]
async fn there_is_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("an address");
    for jail in [
        jail(JailLimits::default()),
        jail(JailLimits::default()).without_layers(&[IsolationLayer::Namespaces, IsolationLayer::Landlock]),
    ] {
        check(&jail, &format!("connect {address}"), "PermissionDenied").await;
        for what in ["connect 8.8.8.8:53", "udp", "unix /tmp/doran-jail.sock", "pair"] {
            check(&jail, what, "PermissionDenied").await;
        }
    }
}

#[tokio::test]
async fn no_process_program_or_thread_can_be_started() {
    let jail = jail(JailLimits::default());
    check(&jail, "spawn", "PermissionDenied").await;
    check(&jail, "thread", "PermissionDenied").await;
}

#[tokio::test]
async fn a_worker_that_may_have_threads_still_has_no_processes() {
    let jail =
        jail(JailLimits { threads: ThreadPermission::Some, memory: 512 << 20, ..JailLimits::default() });
    check(&jail, "thread", "broke out: 7").await;
    check(&jail, "spawn", "PermissionDenied").await;
}

#[tokio::test]
async fn calls_that_reach_into_the_kernel_or_others_are_refused() {
    let jail = jail(JailLimits::default());
    for call in [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_kill,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_unshare,
        libc::SYS_mount,
        libc::SYS_keyctl,
        libc::SYS_perf_event_open,
        libc::SYS_memfd_create,
        libc::SYS_clone3,
        libc::SYS_setns,
        libc::SYS_userfaultfd,
        libc::SYS_prctl,
        libc::SYS_seccomp,
    ] {
        check(&jail, &format!("call {call}"), "PermissionDenied").await;
    }
    check(&jail, "signal", "PermissionDenied").await;
}

#[tokio::test]
async fn memory_cannot_become_code() {
    check(&jail(JailLimits::default()), "code", "PermissionDenied").await;
}

#[tokio::test]
async fn nothing_is_inherited() {
    // A descriptor that passes to children, as a careless shell leaves them.
    let leak = std::fs::File::open("/etc/passwd").expect("open");
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).expect("leak it");
    let jail = jail(JailLimits::default());
    // The way to answer is the one that is left.
    check(&jail, "open_files", "1").await;
    // One variable, the jail's own word to the allocator.
    check(&jail, "environment", "1 PermissionDenied").await;
}

#[tokio::test]
async fn a_jail_says_which_walls_stand() {
    let layers = jail(JailLimits::default()).layers("__attempt").await;
    match layers {
        Ok(layers) => {
            assert!(
                layers.contains(&IsolationLayer::SystemCalls)
                    && layers.contains(&IsolationLayer::ResourceLimits),
                "{layers:?}"
            );
            assert!(
                layers.contains(&IsolationLayer::NoPrivileges)
                    && layers.contains(&IsolationLayer::DiesWithParent),
                "{layers:?}"
            );
        }
        Err(error) => eprintln!("SKIPPED: no jail on this machine / 이 기계에서는 격리할 수 없음: {error}"),
    }
}

#[tokio::test]
async fn too_few_walls_are_refused_not_run_open() {
    let jail = jail(JailLimits::default()).without_layers(&[IsolationLayer::SystemCalls]);
    let result = jail.run(WorkerCall { argument: "__attempt", input: b"echo a" }).await;
    assert!(matches!(result, Err(JailError::Unavailable { .. })), "{result:?}");
    let jail = jail.with_readable([PathBuf::from("/usr/share")]).without_layers(&[IsolationLayer::Landlock]);
    let result = jail.layers("__attempt").await;
    assert!(matches!(result, Err(JailError::Unavailable { .. })), "{result:?}");
}

#[tokio::test]
async fn a_worker_that_does_not_lock_itself_in_gets_no_input() {
    let limits = JailLimits { wall: std::time::Duration::from_secs(2), ..JailLimits::default() };
    for argument in ["__open", "__babble", "__flood", "__unknown"] {
        let result = jail(limits.clone()).run(WorkerCall { argument, input: b"secret" }).await;
        assert!(matches!(result, Err(JailError::Unavailable { .. })), "{argument} {result:?}");
    }
    let result = jail(limits).run(WorkerCall { argument: "__mute", input: b"secret" }).await;
    assert!(matches!(result, Err(JailError::TimedOut(_))), "{result:?}");
    let nowhere = jail(JailLimits::default()).with_program("/nowhere/at/all");
    let result = nowhere.run(WorkerCall { argument: "__attempt", input: b"secret" }).await;
    assert!(matches!(result, Err(JailError::Unavailable { .. })), "{result:?}");
}
