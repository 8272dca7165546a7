//! Starting the program in a directory of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// An empty directory for one test.
pub fn fresh_directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::remove_dir_all(&path).ok();
    fs::create_dir_all(&path).expect("a directory");
    path.canonicalize().expect("a path")
}

pub fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The program in an empty environment, its home and working directory here.
pub fn doran_command(here: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doran"));
    command.env_clear().env("HOME", here).current_dir(here).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end with these lines as standard input.
pub fn run_doran(here: &Path, args: &[&str], input: &str) -> Output {
    let mut child = doran_command(here, args).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that ends early does not read: its output says why.
    stdin.write_all(input.as_bytes()).ok();
    drop(stdin);
    child.wait_with_output().expect("the program ends")
}

/// Starts the program and does not wait for it.
pub fn spawn_doran(here: &Path, args: &[&str]) -> Child {
    let mut command = doran_command(here, args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a program")
}

/// The program in a terminal, which the program `script` plays. `None`, with a printed line, where there is none.
#[cfg(target_os = "linux")]
pub fn spawn_in_terminal(here: &Path, args: &str) -> Option<Child> {
    // `exec`, and one shell everywhere: a shell that stays answers Ctrl-C itself and ends with 130.
    let spawned = Command::new("script")
        .args(["-qec", &format!("exec {} {args}", env!("CARGO_BIN_EXE_doran")), "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env("HOME", here)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .current_dir(here)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    if spawned.is_err() {
        assert!(std::env::var_os("DORAN_REQUIRE_PARTS").is_none(), "`script` is missing");
        println!("SKIPPED: there is no `script` (util-linux) / `script`(util-linux)가 없음");
    }
    spawned.ok()
}

/// A server at work. Dropped, it is killed.
pub struct ServerProcess {
    pub child: Child,
    pub address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl ServerProcess {
    /// Starts `doran serve` on a port of its own and waits until it listens.
    pub fn start(here: &Path, failpoint: Option<&str>) -> Self {
        let mut command = doran_command(here, &["serve", "--port", "0"]);
        if let Some(failpoint) = failpoint {
            command.env("DORAN_FAILPOINT", failpoint);
        }
        Self::spawn(command)
    }

    /// Starts `doran serve` with these flags.
    pub fn start_with(here: &Path, flags: &[&str]) -> Self {
        Self::spawn(doran_command(here, &[&["serve"], flags].concat()))
    }

    /// Starts it by a line of the shell, which has to become the program.
    pub fn start_by_shell(here: &Path, line: &str) -> Self {
        let mut command = Command::new("sh");
        command.env_clear().env("HOME", here).current_dir(here).args(["-c", line]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::spawn(command)
    }

    /// Starts it by this command.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the program starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (mut text, mut line) = (String::new(), String::new());
        let address = loop {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("a line") > 0, "no address in {text:?}");
            text.push_str(&line);
            if let Some(address) = line.split("http://").nth(1).and_then(|rest| rest.split(';').next()) {
                break address.replace("0.0.0.0", "127.0.0.1");
            }
        };
        Self { child, address, stderr }
    }

    /// Sends a request and reads the whole answer. What breaks off is given as far as it came.
    pub fn request(&self, head: &str, body: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).expect("connected");
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).ok();
        utf8(&answer)
    }

    /// What it says until it ends.
    pub fn rest_of_stderr(&mut self) -> String {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("text");
        rest
    }

    /// Asks it to stop, and waits.
    pub fn stop(mut self) -> (std::process::ExitStatus, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        let status = self.child.wait().expect("it ends");
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("text");
        (status, rest)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
