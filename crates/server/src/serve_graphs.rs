//! Serves graphs of your own: the API, the page and the inspector.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use doran_agents::Agent;
use doran_engine::store::{IdempotencyStore, Store};
use doran_engine::{EngineError, Runtime};
use tokio_util::sync::CancellationToken;

use crate::{ApiKeys, BindError, ServerApp, bind, serve};

/// How long steps in progress may take to end when the server stops.
const STOP_TIME: Duration = Duration::from_secs(5);

/// Why graphs cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeGraphsError {
    /// A graph cannot be registered, or the store does not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// Serves these graphs on an address of this machine until the process is interrupted. Runs that were left behind go on.
///
/// ```no_run
/// # async fn example(graph: doran_engine::Graph<State>) -> Result<(), Box<dyn std::error::Error>> {
/// # use std::sync::Arc;
/// # use doran_agents::Agent;
/// # use doran_engine::store::RamStore;
/// let graphs = [Agent::from_graph("triage", &graph)];
/// doran_server::serve_graphs(Arc::new(RamStore::new()), graphs, ([127, 0, 0, 1], 7979).into()).await?;
/// # Ok(())
/// # }
/// # #[derive(doran_engine::State, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct State { answer: String }
/// ```
///
/// With keys, limits, documents or a runtime of your own, build a [`ServerApp`] and call [`serve`].
pub async fn serve_graphs<S: Store + IdempotencyStore>(
    store: Arc<S>,
    graphs: impl IntoIterator<Item = Agent>,
    address: SocketAddr,
) -> Result<(), ServeGraphsError> {
    let runtime = Runtime::new(store.clone());
    let graphs: Vec<Agent> = graphs.into_iter().collect();
    for graph in &graphs {
        graph.register(&runtime)?;
    }
    let app = ServerApp::new(runtime.clone(), store, graphs);
    let listener = bind(address, &ApiKeys::default()).await?;
    runtime.start_worker().await?;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let app = app.shutdown_token(stop.clone());
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stopping.cancel();
        }
    });
    tracing::info!(%address, "serving graphs");
    serve(listener, app, stop).await;
    runtime.shutdown(STOP_TIME).await;
    Ok(())
}
