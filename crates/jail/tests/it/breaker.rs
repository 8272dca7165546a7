//! A worker that tries to break out of its jail, one way at a time, and tells how far it came.

#![allow(unsafe_code, reason = "an attacker does not keep to the safe parts of Rust")]

use std::fmt::Debug;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, fs, hint, io, ptr, thread};

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("__attempt") => doran_jail::serve(|input| attempt(&input).into_bytes()),
        // Says nothing at all.
        Some("__mute") => loop_forever(),
        // Speaks without end, before it has said which walls stand.
        Some("__flood") => flood_stdout(),
        // Claims to have no walls.
        Some("__open") => send_frame(br#"{"held":[]}"#),
        // Says something else.
        Some("__babble") => send_frame(b"hello"),
        // A parent that is about to be killed. Its child would run for a minute.
        Some("__parent") => run_as_parent(),
        _ => ExitCode::from(2),
    }
}

fn attempt(input: &[u8]) -> String {
    let input = String::from_utf8_lossy(input).into_owned();
    let (what, rest) = input.split_once(' ').unwrap_or((&input, ""));
    match what {
        "read" => attempt_report(fs::read(rest)),
        "list" => attempt_report(fs::read_dir(rest).map(Iterator::count)),
        "look" => attempt_report(fs::metadata(rest).map(|found| found.len())),
        "write" => attempt_report(fs::write(rest, b"x")),
        "remove" => attempt_report(fs::remove_file(rest)),
        "connect" => attempt_report(TcpStream::connect(rest).map(drop)),
        "udp" => attempt_report(UdpSocket::bind("127.0.0.1:0").map(drop)),
        "unix" => attempt_report(UnixStream::connect(rest).map(drop).and(UnixListener::bind(rest).map(drop))),
        "pair" => attempt_report(UnixDatagram::pair().map(drop)),
        "spawn" => attempt_report(Command::new("/bin/true").status()),
        "thread" => {
            attempt_report(thread::Builder::new().spawn(|| 7).map(|thread| thread.join().unwrap_or(0)))
        }
        "signal" => attempt_report(syscall_result(unsafe { libc::kill(libc::getppid(), 0) }.into())),
        "call" => attempt_report(syscall_result(unsafe {
            libc::syscall(rest.parse().unwrap_or(-1), 0, 0, 0, 0, 0, 0)
        })),
        "code" => attempt_report(executable_memory()),
        "open_files" => (3..64)
            .filter(|number| syscall_result(unsafe { libc::fcntl(*number, libc::F_GETFD) }.into()).is_ok())
            .count()
            .to_string(),
        "environment" => format!("{} {}", env::vars_os().count(), attempt_report(env::current_dir())),
        "allocate" => {
            vec![1_u8; rest.parse().unwrap_or(0)].iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string()
        }
        "hoard" => allocate_without_end(),
        "print" => {
            let printed = (0..10_000).map(|_| io::stdout().write_all(&[b'x'; 1000]).is_ok());
            printed.filter(|printed| *printed).count().to_string()
        }
        "answer" => "x".repeat(rest.parse().unwrap_or(0)),
        "echo" => rest.to_string(),
        "complain" => {
            for _ in 0..1000 {
                eprintln!("{}", "x".repeat(1000));
            }
            "complained".to_string()
        }
        "spin" => {
            loop_forever();
        }
        "deaf" => {
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
            loop_forever();
        }
        "sleep" => {
            thread::sleep(Duration::from_secs(1000));
            String::new()
        }
        "abort" => std::process::abort(),
        "fault" => {
            unsafe { ptr::null_mut::<u8>().write_volatile(1) };
            String::new()
        }
        "panic" => panic!("on purpose"),
        "leave" => std::process::exit(7),
        "recurse" => recurse(0).to_string(),
        _ => "no such attempt".to_string(),
    }
}

fn attempt_report<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("broke out: {:.200}", format!("{value:?}")),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// The result of a call into the kernel.
fn syscall_result(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn executable_memory() -> io::Result<()> {
    let code = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let place = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let at = unsafe { libc::mmap(ptr::null_mut(), 4096, code, place, -1, 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn allocate_without_end() -> String {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        all.push(vec![1; 1 << 20]);
        if all.len() > 4096 {
            return "broke out: 4 GiB".to_string();
        }
    }
}

fn recurse(depth: u64) -> u64 {
    hint::black_box([depth; 64])[0] + if depth == u64::MAX { 0 } else { recurse(depth + 1) }
}

fn loop_forever() -> ! {
    loop {
        hint::spin_loop();
    }
}

fn flood_stdout() -> ExitCode {
    while io::stdout().write_all(&[b'x'; 4096]).is_ok() {}
    ExitCode::FAILURE
}

fn send_frame(words: &[u8]) -> ExitCode {
    let length = u32::try_from(words.len()).unwrap_or(0).to_le_bytes();
    let written =
        io::stdout().write_all(&length).and(io::stdout().write_all(words)).and(io::stdout().flush());
    thread::sleep(Duration::from_secs(60));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_as_parent() -> ExitCode {
    let limits = doran_jail::JailLimits {
        wall: Duration::from_secs(60),
        cpu: Duration::from_secs(60),
        output: env::args().nth(2).and_then(|mark| mark.parse().ok()).unwrap_or(1),
        ..doran_jail::JailLimits::default()
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let jail = doran_jail::Jail::new(limits);
    let done = runtime.block_on(jail.run(doran_jail::WorkerCall { argument: "__attempt", input: b"spin" }));
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
