//! A run with a limit that is interrupted: what it spent before counts.

use std::sync::Arc;

use doran_engine::store::RunUsage;
use doran_engine::{
    Cx, EngineError, Graph, NodeError, RunError, RunLimits, Runtime, Snap, StartOptions, node,
};

use super::{SimulationFailure, SimulationFailureKind};
use crate::support::{EngineTestState, local_thread, ram_store};

/// Spends ten tokens, asks, and spends ten more where fifteen are allowed.
pub(super) async fn check_limit_after_pause() -> Result<(), SimulationFailure> {
    let spend = |cx: &Cx| cx.spend(RunUsage { input_tokens: 10, ..RunUsage::default() });
    let asks = move |_: Snap<EngineTestState>, cx: Cx| async move {
        spend(&cx)?;
        let answer = cx.ask::<String, _>("?").await?;
        Ok::<_, NodeError>(EngineTestState::update().text(answer))
    };
    let spends = move |_: Snap<EngineTestState>, cx: Cx| async move {
        spend(&cx)?;
        Ok::<_, NodeError>(EngineTestState::update())
    };
    let graph = Graph::named().node("ask", node(asks).then("spend")).node("spend", node(spends).end());
    let graph = graph.start("ask").build().expect("sound");
    let handle = Runtime::new(Arc::new(ram_store())).register_graph("g", &graph).expect("registered");
    let limits = Some(RunLimits { tokens: Some(15), ..RunLimits::default() });
    let options = StartOptions { limits, ..StartOptions::default() };
    let run = handle.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await;
    handle.wait_for_outcome(&run.expect("started")).await.expect("paused");
    match handle.resume(&local_thread("t"), "on").await {
        Err(EngineError::Run(RunError::Failed(failure))) if failure.code == "limit_exceeded" => Ok(()),
        other => {
            let text = format!("15 tokens were allowed and 20 spent: {other:?}");
            Err(SimulationFailure::new(SimulationFailureKind::Lost, text))
        }
    }
}
