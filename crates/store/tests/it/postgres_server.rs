//! A real PostgreSQL for tests: made in a temporary folder, stopped and removed when the test process ends, however
//! it ends.
//!
//! `DORAN_TEST_POSTGRES` names a server to use instead (a URL without a schema). `DORAN_TEST_POSTGRES_BIN` names
//! the folder of `initdb` and `pg_ctl`, which are otherwise looked for on the path and where Linux distributions
//! put them. Without either the tests say `SKIPPED`, or fail when `DORAN_REQUIRE_PARTS=1`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The password of the superuser on the TCP port. The socket asks for none.
pub const PASSWORD: &str = "s3cr3t-canary";

/// A server of our own.
pub struct TestPostgresServer {
    bin_dir: PathBuf,
    run_as_user: Option<&'static str>,
    dir: PathBuf,
    port: u16,
    /// Ends the server when its standard input does, which is when this process does.
    _watch: Child,
}

/// The URL of a fresh schema on the server that all tests of this process share. `None`: skipped, in words.
pub fn fresh_schema_url() -> Option<String> {
    static SHARED: OnceLock<Result<(Option<TestPostgresServer>, String), String>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        if let Ok(url) = env::var("DORAN_TEST_POSTGRES") {
            return Ok((None, url));
        }
        let server = TestPostgresServer::start()?;
        let url = server.socket_url();
        Ok((Some(server), url))
    });
    match shared {
        Ok((_, url)) => Some(with_schema(url, &fresh_schema_name())),
        Err(why) => skip_test(why),
    }
}

/// A server that a test may stop. `None`: skipped, in words.
pub fn start_own_server() -> Option<TestPostgresServer> {
    match TestPostgresServer::start() {
        Ok(server) => Some(server),
        Err(why) => skip_test(&why),
    }
}

pub fn with_schema(url: &str, schema: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}schema={schema}")
}

pub fn fresh_schema_name() -> String {
    format!("t_{}", uuid::Uuid::new_v4().simple())
}

fn skip_test<T>(why: &str) -> Option<T> {
    assert!(
        env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"),
        "PostgreSQL is required (DORAN_REQUIRE_PARTS=1) and cannot be had: {why}"
    );
    eprintln!("SKIPPED: no PostgreSQL for this test: {why}");
    None
}

impl TestPostgresServer {
    /// Makes and starts a server with the settings of a real one: `fsync` is on.
    pub fn start() -> Result<Self, String> {
        let bin = find_postgres_binaries().ok_or("`initdb` and `pg_ctl` were not found")?;
        let user = find_unprivileged_user()?;
        let dir = env::temp_dir().join(format!("doran-{}", fresh_schema_name()));
        fs::create_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        fs::write(dir.join("password"), PASSWORD).map_err(|error| error.to_string())?;
        if let Some(user) = user {
            run_command(Command::new("chown").arg("-R").arg(user).arg(&dir))?;
        }
        // From here on the folder is removed whatever happens.
        let watch = spawn_cleanup_watcher(&bin, user, &dir).map_err(|error| error.to_string())?;
        let mut server = Self { bin_dir: bin, run_as_user: user, dir, port: 0, _watch: watch };
        let (data, password) = (server.dir.join("data"), server.dir.join("password"));
        let init = ["-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C", "-A", "scram-sha-256"];
        let mut command = server.command("initdb");
        command.args(init).arg("--auth-local=trust").arg("--pwfile").arg(&password).arg("-D").arg(&data);
        run_command(&mut command)?;
        // Another program may take the port between the look and the start.
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            server.port = free.map_err(|error| error.to_string())?.port();
            if server.start_process().is_ok() {
                return Ok(server);
            }
        }
        server.start_process()?;
        Ok(server)
    }

    /// Starts it again after [`TestPostgresServer::stop_immediately`].
    pub fn start_process(&self) -> Result<(), String> {
        let settings = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={} -c max_connections=60",
            self.port,
            self.dir.display()
        );
        let mut command = self.command("pg_ctl");
        command.arg("start").arg("-w").arg("-D").arg(self.dir.join("data"));
        command.arg("-l").arg(self.dir.join("log")).arg("-o").arg(settings);
        run_command(&mut command)
    }

    /// Pulls the plug.
    pub fn stop_immediately(&self) -> Result<(), String> {
        self.stop("immediate")
    }

    /// Stops it in one of the ways of `pg_ctl`.
    pub fn stop(&self, mode: &str) -> Result<(), String> {
        let mut command = self.command("pg_ctl");
        command.args(["stop", "-w", "-m", mode]).arg("-D").arg(self.dir.join("data"));
        run_command(&mut command)
    }

    /// By the socket.
    pub fn socket_url(&self) -> String {
        format!("postgres:///postgres?user=postgres&port={}&host={}", self.port, self.dir.display())
    }

    /// By TCP, with this password.
    pub fn tcp_url(&self, password: &str) -> String {
        format!("postgres://postgres:{password}@127.0.0.1:{}/postgres", self.port)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = as_user(self.run_as_user, self.bin_dir.join(program).as_os_str());
        command.current_dir(&self.dir);
        command
    }
}

/// A shell that waits for the end of this process and then clears up.
fn spawn_cleanup_watcher(bin: &Path, user: Option<&str>, dir: &Path) -> std::io::Result<Child> {
    let script = r#"trap '' INT TERM HUP; while read -r _; do :; done
        dir=$1; shift; "$@" stop -w -m immediate -D "$dir/data"; rm -rf "$dir""#;
    let stop = as_user(user, bin.join("pg_ctl").as_os_str());
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(dir)
        .arg(stop.get_program())
        .args(stop.get_args())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn run_command(command: &mut Command) -> Result<(), String> {
    // A server that goes on would keep a pipe open for ever, so what is said goes to a file.
    let mut said = tempfile::tempfile().map_err(|error| error.to_string())?;
    let copies = (said.try_clone(), said.try_clone());
    let (Ok(stdout), Ok(stderr)) = copies else { return Err("no file for the output".into()) };
    let status = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).status();
    let status = status.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if status.success() {
        return Ok(());
    }
    let mut text = String::new();
    said.rewind().and_then(|()| said.read_to_string(&mut text)).map_err(|error| error.to_string())?;
    Err(format!("{command:?} ended with {status}: {text}"))
}

/// PostgreSQL refuses to run as root, so there it runs as somebody else.
fn as_user(user: Option<&str>, program: &OsStr) -> Command {
    match user {
        None => Command::new(program),
        Some(user) if is_installed("runuser") => {
            let mut command = Command::new("runuser");
            command.args(["-u", user, "--"]).arg(program);
            command
        }
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]).arg(program);
            command
        }
    }
}

fn find_unprivileged_user() -> Result<Option<&'static str>, String> {
    let id = Command::new("id").arg("-u").output().map_err(|error| format!("id: {error}"))?;
    if id.stdout != b"0\n" {
        return Ok(None);
    }
    let exists = |user: &&str| Command::new("id").arg(user).output().is_ok_and(|id| id.status.success());
    let user = ["postgres", "nobody"].into_iter().find(exists);
    user.map(Some).ok_or_else(|| "it does not run as root, and there is no other user".into())
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn find_postgres_binaries() -> Option<PathBuf> {
    let given = env::var_os("DORAN_TEST_POSTGRES_BIN").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut packaged: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|found| found.path().join("bin"))
        .collect();
    packaged.sort();
    let folders = given.into_iter().chain(packaged.into_iter().rev()).chain(env::split_paths(&path));
    let whole = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("pg_ctl").is_file();
    // `initdb` looks for its files beside itself, so links to it are followed.
    folders
        .into_iter()
        .find(whole)
        .and_then(|folder| fs::canonicalize(folder.join("initdb")).ok())
        .and_then(|initdb| initdb.parent().map(Path::to_path_buf))
}
