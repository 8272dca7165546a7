//! `doran serve`: runs the HTTP server until it is stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use doran_engine::Runtime;
use doran_engine::store::Retention;
use doran_retrieval::Library;
use doran_server::{ApiKeys, BindError, ServerLimits};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent_client;
use crate::api_key_file::ApiKeyWatcher;
use crate::args::parse_port;
use crate::assemble::telemetry::TELEMETRY_SHUTDOWN_TIMEOUT;
use crate::assemble::{self, App, RecordReplay};
use crate::attachment_cleanup::delete_orphaned_attachments;
use crate::client::ServerHttpClient;
use crate::config::Config;
use crate::data_dir::{self, DataDirLock};
use crate::exit::StopSignals;
use crate::free_memory;
use crate::output::{BilingualMessage, TerminalOutput, bilingual};
use crate::replica::registration::ReplicaRegistration;
use crate::systemd_notify::SystemdNotifier;

/// Time for running steps after the connections are closed. Together with the server's own timeout it is below ten
/// seconds.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran serve
  doran serve --port 8080
  doran keys new laptop && DORAN_ALLOWED_HOSTS=192.168.0.5 doran serve --listen 0.0.0.0:7979
                            reachable from other machines under that name · 다른 컴퓨터에서 그 이름으로 접속
  curl http://127.0.0.1:7979/api/agents")]
pub(crate) struct ServeArgs {
    /// Port; replaces the port of `listen` · 포트. `listen`의 포트를 대신합니다
    #[arg(long, value_name = "PORT", value_parser = parse_port)]
    port: Option<u16>,
    #[command(flatten)]
    record_replay: RecordReplay,
}

/// Serves until a signal arrives, a write has an unknown outcome, or a newer program has migrated the database.
pub(crate) async fn run(args: &ServeArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let mut address = config.listen;
    address.set_port(args.port.unwrap_or(address.port()));
    if let Some(server) = agent_client::running_server(config) {
        return Err(server_runs_already(server.address, &config.data_dir).into());
    }
    // The address is checked first, so that a mistake in it does not create a database.
    let key_watcher = ApiKeyWatcher::open(config).await?;
    let listener = bind_listener(address, &key_watcher.keys).await?;
    // Two servers in one data directory would have one name, and the second one would end the lease of the first.
    let (held, registration) = match key_watcher.shared_values() {
        Some(values) => {
            let held = DataDirLock::acquire(&config.data_dir)?;
            (Some(held), Some(ReplicaRegistration::register(config, values.clone()).await?))
        }
        None => (None, None),
    };
    let served = serve_registered(args, config, output, listener, key_watcher, held.clone()).await;
    if let Some(registration) = registration {
        registration.end().await;
    }
    // Not before: a server that is started here next has the same name, and its lease would be ended.
    drop(held);
    served
}

async fn serve_registered(
    args: &ServeArgs,
    config: &Config,
    output: TerminalOutput,
    listener: TcpListener,
    key_watcher: ApiKeyWatcher,
    held: Option<DataDirLock>,
) -> anyhow::Result<()> {
    let mut app = assemble::assemble_app_in_locked_directory(config, &args.record_replay, held).await?;
    app.notes.iter().for_each(|note| output.print_message(note));
    let serving = RunningServer::start(&mut app, listener, config, key_watcher).await?;
    let address = serving.address;
    // Before the server reports that it listens, so that no signal after that is missed.
    let signals = StopSignals::listen()?;
    output.print_message(&bilingual!(
        "http://{address} 에서 요청을 기다립니다. Ctrl-C로 멈춥니다",
        "listening on http://{address}; Ctrl-C stops it"
    ));
    if !address.ip().is_loopback() && config.allowed_hosts.is_empty() {
        output.print_message(&bilingual!(
            "다른 컴퓨터가 이 서버를 부를 이름이나 주소를 `allowed_hosts`(`DORAN_ALLOWED_HOSTS`)에 적으세요. 그때까지는 이 컴퓨터에만 답합니다",
            "name what other machines call this server, a name or an address, in `allowed_hosts` (`DORAN_ALLOWED_HOSTS`); until then only this machine is answered"
        ));
    }
    let systemd = SystemdNotifier::from_environment();
    systemd.notify_ready(&format!("listening on http://{address}"));
    serving.serve_until_stopped(&app, &systemd, signals, output).await
}

/// Says that the directory has a server.
fn server_runs_already(address: SocketAddr, data_dir: &Path) -> BilingualMessage {
    let shown = data_dir.display();
    bilingual!(
        "데이터 디렉터리 `{shown}`의 서버가 http://{address} 에서 이미 실행 중입니다. 그 서버를 쓰거나 Ctrl-C로 멈추세요. 서버를 하나 더 실행하려면 `--data-dir`과 `--port`로 다른 곳과 다른 포트를 고르세요",
        "the server of the data directory `{shown}` runs already at http://{address}; use it, or stop it with Ctrl-C. For one more server choose another directory and another port with `--data-dir` and `--port`"
    )
}

/// Binds an address. The error says in both languages why it failed.
pub(crate) async fn bind_listener(
    address: SocketAddr,
    keys: &ApiKeys,
) -> Result<TcpListener, BilingualMessage> {
    doran_server::bind(address, keys).await.map_err(|error| match error {
        BindError::NotLoopback(_) => bilingual!(
            "`{address}`에는 다른 컴퓨터도 닿을 수 있는데, 그것을 지킬 키가 없습니다. `doran keys new 이름`으로 키를 만들거나, `127.0.0.1:7979` 같은 루프백 주소를 쓰세요",
            "other machines can reach `{address}`, and there are no keys to protect it; make one with `doran keys new NAME`, or use a loopback address such as `127.0.0.1:7979`"
        ),
        BindError::InUse(_) => bilingual!(
            "`{address}`은(는) 다른 프로그램이 쓰고 있습니다. `--port`로 다른 포트를 고르세요",
            "`{address}` is in use by another program; choose another port with `--port`"
        ),
        BindError::Other { source, .. } => {
            bilingual!("`{address}`에서 들을 수 없습니다", "cannot listen on `{address}`").with_cause(source)
        }
    })
}

/// A running server.
pub(crate) struct RunningServer {
    pub(crate) address: SocketAddr,
    /// A client of this server, with its API key.
    pub(crate) client: ServerHttpClient,
    data_dir: PathBuf,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RunningServer {
    /// Resumes unfinished runs, starts the server, and writes its address into the data directory.
    pub(crate) async fn start(
        app: &mut App,
        listener: TcpListener,
        config: &Config,
        key_watcher: ApiKeyWatcher,
    ) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        app.keys = key_watcher.keys.clone();
        app.runtime.start_worker().await?;
        let (stop, data_dir) = (CancellationToken::new(), config.data_dir.clone());
        let limits = ServerLimits {
            max_connections: max_connections(),
            max_body_memory_bytes: config.max_body_memory_bytes,
            ..ServerLimits::default()
        };
        let (evals, eval_usage) = app.evals(config);
        let server = app.server_app().limits(limits).evals(evals, eval_usage);
        let updating =
            app.agent_files.clone().keep_updated(server.agent_list(), app.runtime.clone(), stop.clone());
        tokio::spawn(updating);
        let task = tokio::spawn(doran_server::serve(listener, server, stop.clone()));
        tokio::spawn(run_gc_periodically(
            app.runtime.clone(),
            app.library.clone(),
            config.retention.clone(),
            stop.clone(),
        ));
        tokio::spawn(free_memory::keep_giving_back(stop.clone()));
        app.keep_samples_updated(stop.clone());
        app.keep_models_updated(stop.clone());
        let client = key_watcher.server_client(address);
        data_dir::ensure_private_dir(&data_dir)?;
        client.write_address_file(&data_dir)?;
        tokio::spawn(key_watcher.watch_keys(client.clone(), data_dir.clone(), stop.clone()));
        Ok(Self { address, client, data_dir, stop, task })
    }

    /// Serves until a signal arrives, then shuts down.
    pub(crate) async fn serve_until_stopped(
        self,
        app: &App,
        systemd: &SystemdNotifier,
        mut signals: StopSignals,
        output: TerminalOutput,
    ) -> anyhow::Result<()> {
        let ended = tokio::select! {
            asked = signals.recv() => asked,
            error = app.wait_for_fatal_error() => Err(error.into()),
            () = systemd.send_watchdog(&self.stop) => Ok(()),
        };
        systemd.notify_stopping();
        if ended.is_ok() {
            output.print_message(&bilingual!("멈추는 중입니다", "stopping"));
        }
        self.shut_down(app).await?;
        ended
    }

    /// Ends streams, then stops runs at their next step. Nothing is lost: the next start resumes them.
    pub(crate) async fn shut_down(self, app: &App) -> anyhow::Result<()> {
        ServerHttpClient::remove_address_file(&self.data_dir);
        self.stop.cancel();
        self.task.await?;
        app.runtime.shutdown(SHUTDOWN_TIMEOUT).await;
        app.telemetry.shut_down(TELEMETRY_SHUTDOWN_TIMEOUT).await;
        app.library.stop_workers().await;
        Ok(())
    }
}

/// The most open connections: the server's own maximum, or three quarters of the file descriptors this process may
/// open, after raising its limit as far as the system allows. The rest is for the database and documents. Further
/// clients wait to be accepted.
fn max_connections() -> usize {
    let wanted = ServerLimits::default().max_connections;
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
        if let Some(open_files) = getrlimit(Resource::Nofile).current {
            return wanted.min(usize::try_from(open_files / 4 * 3).unwrap_or(wanted));
        }
    }
    wanted
}

/// How often a server deletes expired data.
const GC_INTERVAL: Duration = Duration::from_secs(3600);

/// Deletes expired data as long as the server runs.
async fn run_gc_periodically(
    runtime: Runtime,
    library: Library,
    retention: Retention,
    stop: CancellationToken,
) {
    loop {
        if let Err(error) = runtime.collect_garbage(&retention).await {
            tracing::warn!(%error, "cannot delete expired data; trying again later");
        }
        match delete_orphaned_attachments(&runtime, &library).await {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "attachments of deleted conversations were deleted"),
            Err(error) => {
                tracing::warn!(%error, "cannot delete attachments of deleted conversations; trying again later");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(GC_INTERVAL) => {}
        }
    }
}
