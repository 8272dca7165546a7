//! The servers that are measured, each a process of its own, started empty and cleared away afterwards.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::ServerBenchError;
use crate::load::{self, ServerEndpoint};
use crate::{peer, times};

/// The longest that a server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeasuredServerKind {
    /// This program, as a server.
    Doran,
    /// `doran serve`.
    Program,
    /// FastAPI with LangGraph, served by uvicorn.
    FastApi,
    /// LangGraph's own development server.
    Dev,
}

impl MeasuredServerKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Doran => "doran",
            Self::Program => "doran serve",
            Self::FastApi => "fastapi + langgraph",
            Self::Dev => "langgraph dev",
        }
    }
}

/// Where runs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerBenchStore {
    Ram,
    Sqlite,
    Postgres,
}

impl ServerBenchStore {
    pub(crate) const ALL: [Self; 3] = [Self::Ram, Self::Sqlite, Self::Postgres];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ram => "ram",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// What the servers stand on.
pub(crate) struct ServerBenchSetup {
    /// In the build folder, not in the folder for temporary files: that may be memory, and syncing memory is free.
    dir: TempDir,
    pub postgres: Option<String>,
    pub python: Option<PathBuf>,
    pub program: Option<PathBuf>,
}

/// How a program starts and what it takes when it does nothing.
pub(crate) struct StartupFigures {
    /// The median, in milliseconds.
    pub ready: f64,
    pub best: f64,
    pub mib: f64,
}

impl ServerBenchSetup {
    pub(crate) fn new() -> Result<Self, ServerBenchError> {
        let named = |variable: &str| std::env::var(variable).ok().filter(|value| !value.is_empty());
        Ok(Self {
            dir: TempDir::with_prefix_in("bench-", env!("CARGO_TARGET_TMPDIR"))?,
            postgres: named("DORAN_TEST_POSTGRES"),
            python: peer::python("server"),
            program: named("DORAN_BENCH_PROGRAM").map(PathBuf::from),
        })
    }

    /// An empty folder.
    fn folder(&self) -> Result<PathBuf, ServerBenchError> {
        let path = self.dir.path().join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    fn python(&self) -> Result<&PathBuf, ServerBenchError> {
        self.python.as_ref().ok_or_else(|| "there is no Python".into())
    }

    /// Starts a program several times on the same data and looks at it once it is ready. The first start, which makes
    /// the data, does not count.
    pub(crate) async fn measure_startup(
        &self,
        kind: MeasuredServerKind,
        times: usize,
    ) -> Result<StartupFigures, ServerBenchError> {
        let folder = self.folder()?;
        let (mut ready, mut mib) = (Vec::new(), Vec::new());
        for nth in 0..=times {
            let started = Instant::now();
            let side = MeasuredServer::start_in(kind, ServerBenchStore::Sqlite, self, folder.clone()).await?;
            let took = started.elapsed().as_secs_f64() * 1000.0;
            tokio::time::sleep(Duration::from_secs(1)).await;
            if nth > 0 {
                ready.push(took);
                mib.push(side.resident_bytes()? as f64 / 1024.0 / 1024.0);
            }
            side.kill().await;
        }
        let best = ready.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(StartupFigures { ready: times::at(&ready, 0.5), best, mib: times::at(&mib, 0.5) })
    }
}

/// A server at work.
pub(crate) struct MeasuredServer {
    pub endpoint: ServerEndpoint,
    children: Vec<u32>,
    child: Child,
}

impl MeasuredServer {
    pub(crate) async fn start(
        kind: MeasuredServerKind,
        home: ServerBenchStore,
        ground: &ServerBenchSetup,
    ) -> Result<Self, ServerBenchError> {
        Self::start_in(kind, home, ground, ground.folder()?).await
    }

    async fn start_in(
        kind: MeasuredServerKind,
        home: ServerBenchStore,
        ground: &ServerBenchSetup,
        folder: PathBuf,
    ) -> Result<Self, ServerBenchError> {
        let port = free_port()?;
        let mut command = match kind {
            MeasuredServerKind::Doran => doran_command(home, ground, &folder)?,
            MeasuredServerKind::Program => {
                let program = ground.program.as_ref().ok_or("there is no program")?;
                let mut command = Command::new(program);
                command.env_clear().env("HOME", &folder).args(["serve", "--port", &port.to_string()]);
                command
            }
            MeasuredServerKind::FastApi => fastapi_command(home, ground, &folder, port)?,
            MeasuredServerKind::Dev => langgraph_dev_command(ground, &folder, port)?,
        };
        command.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        // What a peer has to say is read only when it does not start.
        let stderr_path = folder.join("stderr");
        command.stderr(std::fs::File::create(&stderr_path)?);
        let mut child = command.spawn()?;
        let address = match kind {
            MeasuredServerKind::Doran => read_address(&mut child).await?,
            MeasuredServerKind::Program | MeasuredServerKind::FastApi | MeasuredServerKind::Dev => {
                SocketAddr::from(([127, 0, 0, 1], port))
            }
        };
        let door = ServerEndpoint { kind, address };
        let started = Instant::now();
        while !load::is_ready(&door).await {
            if started.elapsed() > START_TIMEOUT || child.try_wait()?.is_some() {
                let why = std::fs::read_to_string(&stderr_path).unwrap_or_default();
                let tail: Vec<&str> = why.lines().rev().take(8).collect();
                return Err(format!(
                    "it does not start: {}",
                    tail.into_iter().rev().collect::<Vec<_>>().join("\n")
                )
                .into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let pid = child.id().ok_or("it ended at once")?;
        Ok(Self { endpoint: door, children: process_tree(pid), child })
    }

    /// Memory of the process and its children that is in use: the resident set.
    pub(crate) fn resident_bytes(&self) -> Result<u64, ServerBenchError> {
        self.children.iter().map(|pid| resident_bytes_of(*pid)).sum()
    }

    /// Ends it and its children.
    pub(crate) async fn kill(mut self) {
        for pid in self.children.iter().rev() {
            // A child may be gone with its parent already.
            std::process::Command::new("kill")
                .arg("-KILL")
                .arg(pid.to_string())
                .stderr(Stdio::null())
                .status()
                .ok();
        }
        self.child.wait().await.ok();
    }
}

fn doran_command(
    home: ServerBenchStore,
    ground: &ServerBenchSetup,
    folder: &std::path::Path,
) -> Result<Command, ServerBenchError> {
    let store = match home {
        ServerBenchStore::Ram => "ram:".to_owned(),
        ServerBenchStore::Sqlite => format!("sqlite:{}", folder.join("doran.db").display()),
        ServerBenchStore::Postgres => {
            let url = ground.postgres.as_deref().ok_or("there is no PostgreSQL")?;
            let joint = if url.contains('?') { '&' } else { '?' };
            format!("{url}{joint}schema=doran_bench_{}", uuid::Uuid::new_v4().simple())
        }
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--serve", &store]);
    Ok(command)
}

/// One process, as a memory or a file is not shared; with PostgreSQL one for each core.
fn fastapi_command(
    home: ServerBenchStore,
    ground: &ServerBenchSetup,
    folder: &std::path::Path,
    port: u16,
) -> Result<Command, ServerBenchError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = if home == ServerBenchStore::Postgres { cores } else { 1 };
    let place = match home {
        ServerBenchStore::Ram => String::new(),
        ServerBenchStore::Sqlite => folder.join("langgraph.db").display().to_string(),
        ServerBenchStore::Postgres => ground.postgres.clone().ok_or("there is no PostgreSQL")?,
    };
    let mut command = Command::new(ground.python()?);
    command.args([
        "-m",
        "uvicorn",
        "server:app",
        "--host",
        "127.0.0.1",
        "--log-level",
        "warning",
        "--no-access-log",
    ]);
    command
        .args(["--port", &port.to_string(), "--workers", &workers.to_string(), "--app-dir"])
        .arg(peer::place());
    command.env("BENCH_STORE", home.name()).env("BENCH_PLACE", place).env("BENCH_FOLDER", folder);
    Ok(command)
}

fn langgraph_dev_command(
    ground: &ServerBenchSetup,
    folder: &std::path::Path,
    port: u16,
) -> Result<Command, ServerBenchError> {
    let python = ground.python()?;
    let graph =
        format!("import sys\nsys.path.insert(0, {:?})\nfrom server import plain as graph\n", peer::place());
    std::fs::write(folder.join("graph.py"), graph)?;
    let settings = r#"{"dependencies":["."],"graphs":{"three":"./graph.py:graph"}}"#;
    std::fs::write(folder.join("langgraph.json"), settings)?;
    let mut command = Command::new(python.with_file_name("langgraph"));
    command.args(["dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--n-jobs-per-worker", "64"]);
    command.args(["--port", &port.to_string()]);
    command.env("LANGSMITH_TRACING", "false").env("LANGGRAPH_CLI_NO_ANALYTICS", "1");
    Ok(command)
}

fn free_port() -> Result<u16, ServerBenchError> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

async fn read_address(child: &mut Child) -> Result<SocketAddr, ServerBenchError> {
    let stdout = child.stdout.take().ok_or("no pipe")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    line.trim().parse().map_err(|_| format!("the server does not start: {line}").into())
}

/// A process and what it started.
fn process_tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    for child in listed.split_whitespace().filter_map(|child| child.parse().ok()) {
        all.extend(process_tree(child));
    }
    all
}

fn resident_bytes_of(pid: u32) -> Result<u64, ServerBenchError> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 =
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).ok_or("no VmRSS")?;
    Ok(kib * 1024)
}
