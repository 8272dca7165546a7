//! The graph that victims run. Its plan comes with the input, and every task leaves a link in the state that says when
//! it ran, so that the driver can tell from the log alone what happened and in which order.
//!
//! ```text
//! begin ─▶ the acts of the plan, one after another ─▶ end
//!          fan: three sides ─▶ gather      sub: a graph of two steps
//! ```

use doran_engine::{Cx, Graph, NodeError, Nodes, Snap, State, To, node, subgraph};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::victim::DriverConnection;
use crate::victim_protocol::{ExternalCallKind, PlannedAction, hash_links};

/// What a thread carries.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct TortureState {
    /// The run in progress.
    pub token: String,
    /// What it does.
    pub plan: Vec<PlannedAction>,
    /// How far it is.
    pub place: usize,
    /// `number|token|task`: what ran, with the number of links it saw.
    #[reduce(append)]
    pub links: Vec<String>,
    pub text: String,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Begin,
    Read,
    Post,
    Pay,
    Mix,
    Ask,
    Side,
    Gather,
    Sub,
    Bulk,
}

const PLANNED_NODES: [Step; 8] =
    [Step::Read, Step::Post, Step::Pay, Step::Mix, Step::Ask, Step::Side, Step::Sub, Step::Bulk];

/// Where the plan leads from here.
fn next_planned_node(state: &TortureState) -> To<Step> {
    match state.plan.get(state.place) {
        None => To::End,
        Some(PlannedAction::Read) => To::Node(Step::Read),
        Some(PlannedAction::Post) => To::Node(Step::Post),
        Some(PlannedAction::Pay) => To::Node(Step::Pay),
        Some(PlannedAction::Mix) => To::Node(Step::Mix),
        Some(PlannedAction::Ask) => To::Node(Step::Ask),
        Some(PlannedAction::Fan | PlannedAction::FanAsk) => {
            To::Each(Step::Side, (0..3).map(Value::from).collect())
        }
        Some(PlannedAction::Sub) => To::Node(Step::Sub),
        Some(PlannedAction::Bulk) => To::Node(Step::Bulk),
    }
}

/// One task at work: where it stands, and what it has done.
#[derive(Clone)]
pub struct TortureTask {
    world: DriverConnection,
    cx: Cx,
    thread: String,
    token: String,
    task: String,
    links: usize,
    hash: String,
}

impl TortureTask {
    fn new(world: &DriverConnection, state: &TortureState, cx: &Cx, item: &str) -> Self {
        Self {
            world: world.clone(),
            cx: cx.clone(),
            thread: cx.thread().map(ToString::to_string).unwrap_or_default(),
            token: state.token.clone(),
            task: format!("{}.{item}", state.place),
            links: state.links.len(),
            hash: hash_links(&state.links),
        }
    }

    async fn read(&self, nth: u32) -> Result<String, NodeError> {
        self.cx
            .closing_effect(
                "read",
                self.world.call(self.external_call(ExternalCallKind::Read, nth, String::new())),
            )
            .await
    }

    async fn post(&self, nth: u32) -> Result<String, NodeError> {
        let call = |key| self.world.call(self.external_call(ExternalCallKind::Post, nth, key));
        self.cx.idempotent_effect("post", call).await
    }

    async fn pay(&self, nth: u32) -> Result<String, NodeError> {
        let call = |key| self.world.call(self.external_call(ExternalCallKind::Pay, nth, key));
        self.cx.effect_at_most_once("pay", call).await
    }

    /// Tells the driver that the task is over and gives its link.
    fn report_done(&self) -> Vec<String> {
        self.world.report_call(self.external_call(ExternalCallKind::Done, u32::MAX, String::new()));
        vec![format!("{}|{}|{}", self.links, self.token, self.task)]
    }

    fn external_call(
        &self,
        class: ExternalCallKind,
        nth: u32,
        key: String,
    ) -> crate::victim_protocol::ExternalCall {
        crate::victim_protocol::ExternalCall {
            call: None,
            thread: self.thread.clone(),
            token: self.token.clone(),
            task: self.task.clone(),
            class,
            nth,
            key,
            links: self.links,
            hash: self.hash.clone(),
            may_be_lost: false,
        }
    }
}

/// The state of the graph inside `Sub`.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct TortureSubgraphState {
    outer: TortureState,
    #[reduce(append)]
    done: Vec<String>,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TortureSubgraphStep {
    First,
    Second,
}

fn build_subgraph(world: &DriverConnection) -> Result<Graph<TortureSubgraphState>, doran_engine::BuildError> {
    let world = world.clone();
    Graph::define(move |step| {
        let world = world.clone();
        match step {
            TortureSubgraphStep::First => node(move |state: Snap<TortureSubgraphState>, cx: Cx| {
                let work = TortureTask::new(&world, &state.outer, &cx, "i1");
                async move {
                    work.post(0).await?;
                    work.report_done();
                    Ok::<_, NodeError>(TortureSubgraphState::update().done(vec!["first".into()]))
                }
            })
            .then(TortureSubgraphStep::Second),
            TortureSubgraphStep::Second => node(move |state: Snap<TortureSubgraphState>, cx: Cx| {
                let work = TortureTask::new(&world, &state.outer, &cx, "i2");
                async move {
                    work.pay(0).await?;
                    work.report_done();
                    Ok::<_, NodeError>(TortureSubgraphState::update().done(vec!["second".into()]))
                }
            })
            .end(),
        }
    })
    .start(TortureSubgraphStep::First)
    .build()
}

/// The graph.
pub fn build_torture_graph(
    world: &DriverConnection,
) -> Result<Graph<TortureState>, doran_engine::BuildError> {
    let below = build_subgraph(world)?;
    let world = world.clone();
    Graph::define(move |step| {
        let world = world.clone();
        let made = match step {
            Step::Begin => {
                return node(move |state: Snap<TortureState>, cx: Cx| {
                    let work = TortureTask::new(&world, &state, &cx, "b");
                    async move { Ok::<_, NodeError>(TortureState::update().links(work.report_done())) }
                })
                .branch_or_end(PLANNED_NODES, next_planned_node);
            }
            Step::Side => {
                return node(move |state: Snap<TortureState>, cx: Cx| {
                    let world = world.clone();
                    async move {
                        let item: u64 = cx.input()?;
                        let work = TortureTask::new(&world, &state, &cx, &item.to_string());
                        work.post(0).await?;
                        if item == 1 && state.plan.get(state.place) == Some(&PlannedAction::FanAsk) {
                            let _: Value = cx.ask(format!("{}?", state.token)).await?;
                            work.pay(1).await?;
                        }
                        Ok::<_, NodeError>(TortureState::update().links(work.report_done()))
                    }
                })
                .then(Step::Gather);
            }
            Step::Sub => node(subgraph(
                below.clone(),
                |state: &TortureState| {
                    TortureSubgraphState::update()
                        .outer(TortureState { text: String::new(), ..state.clone() })
                },
                |inner: &TortureSubgraphState| {
                    let outer = &inner.outer;
                    let link = format!("{}|{}|{}.s", outer.links.len(), outer.token, outer.place);
                    TortureState::update().place(outer.place + 1).links(vec![link])
                },
            )),
            Step::Read | Step::Post | Step::Pay | Step::Mix | Step::Ask | Step::Gather | Step::Bulk => {
                node(move |state: Snap<TortureState>, cx: Cx| {
                    run_planned_action(world.clone(), step, state, cx)
                })
            }
        };
        made.branch_or_end(PLANNED_NODES, next_planned_node)
    })
    .start(Step::Begin)
    .build()
}

async fn run_planned_action(
    world: DriverConnection,
    step: Step,
    state: Snap<TortureState>,
    cx: Cx,
) -> Result<TortureStateUpdate, NodeError> {
    let work = TortureTask::new(&world, &state, &cx, if step == Step::Gather { "g" } else { "0" });
    cx.emit_text("…");
    let mut update = TortureState::update().place(state.place + 1);
    match step {
        Step::Read => drop(work.read(0).await?),
        Step::Post => drop(work.post(0).await?),
        Step::Pay => drop(work.pay(0).await?),
        Step::Mix => {
            work.read(0).await?;
            work.post(1).await?;
            work.pay(2).await?;
        }
        Step::Ask => {
            work.post(0).await?;
            let _: Value = cx.ask(format!("{}?", state.token)).await?;
            work.read(1).await?;
        }
        Step::Bulk => update = update.text("x".repeat(40_000)),
        Step::Begin | Step::Side | Step::Gather | Step::Sub => {}
    }
    Ok(update.links(work.report_done()))
}
