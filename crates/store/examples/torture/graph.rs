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

use crate::victim::World;
use crate::wire::{Act, Class, hash_of};

/// What a thread carries.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tale {
    /// The run in progress.
    pub token: String,
    /// What it does.
    pub plan: Vec<Act>,
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

const AHEAD: [Step; 8] =
    [Step::Read, Step::Post, Step::Pay, Step::Mix, Step::Ask, Step::Side, Step::Sub, Step::Bulk];

/// Where the plan leads from here.
fn ahead(state: &Tale) -> To<Step> {
    match state.plan.get(state.place) {
        None => To::End,
        Some(Act::Read) => To::Node(Step::Read),
        Some(Act::Post) => To::Node(Step::Post),
        Some(Act::Pay) => To::Node(Step::Pay),
        Some(Act::Mix) => To::Node(Step::Mix),
        Some(Act::Ask) => To::Node(Step::Ask),
        Some(Act::Fan | Act::FanAsk) => To::Each(Step::Side, (0..3).map(Value::from).collect()),
        Some(Act::Sub) => To::Node(Step::Sub),
        Some(Act::Bulk) => To::Node(Step::Bulk),
    }
}

/// One task at work: where it stands, and what it has done.
#[derive(Clone)]
pub struct Work {
    world: World,
    cx: Cx,
    thread: String,
    token: String,
    task: String,
    links: usize,
    hash: String,
}

impl Work {
    fn new(world: &World, state: &Tale, cx: &Cx, item: &str) -> Self {
        Self {
            world: world.clone(),
            cx: cx.clone(),
            thread: cx.thread().map(ToString::to_string).unwrap_or_default(),
            token: state.token.clone(),
            task: format!("{}.{item}", state.place),
            links: state.links.len(),
            hash: hash_of(&state.links),
        }
    }

    async fn read(&self, nth: u32) -> Result<String, NodeError> {
        self.cx.closing_effect("read", self.world.call(self.deed(Class::Read, nth, String::new()))).await
    }

    async fn post(&self, nth: u32) -> Result<String, NodeError> {
        let call = |key| self.world.call(self.deed(Class::Post, nth, key));
        self.cx.idempotent("post", call).await
    }

    async fn pay(&self, nth: u32) -> Result<String, NodeError> {
        let call = |key| self.world.call(self.deed(Class::Pay, nth, key));
        self.cx.once("pay", call).await
    }

    /// Tells the driver that the task is over and gives its link.
    fn done(&self) -> Vec<String> {
        self.world.note(self.deed(Class::Done, u32::MAX, String::new()));
        vec![format!("{}|{}|{}", self.links, self.token, self.task)]
    }

    fn deed(&self, class: Class, nth: u32, key: String) -> crate::wire::Deed {
        crate::wire::Deed {
            call: None,
            thread: self.thread.clone(),
            token: self.token.clone(),
            task: self.task.clone(),
            class,
            nth,
            key,
            links: self.links,
            hash: self.hash.clone(),
        }
    }
}

/// The state of the graph inside `Sub`.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Inner {
    outer: Tale,
    #[reduce(append)]
    done: Vec<String>,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum InnerStep {
    First,
    Second,
}

fn inner(world: &World) -> Result<Graph<Inner>, doran_engine::BuildError> {
    let world = world.clone();
    Graph::define(move |step| {
        let world = world.clone();
        match step {
            InnerStep::First => node(move |state: Snap<Inner>, cx: Cx| {
                let work = Work::new(&world, &state.outer, &cx, "i1");
                async move {
                    work.post(0).await?;
                    work.done();
                    Ok::<_, NodeError>(Inner::update().done(vec!["first".into()]))
                }
            })
            .then(InnerStep::Second),
            InnerStep::Second => node(move |state: Snap<Inner>, cx: Cx| {
                let work = Work::new(&world, &state.outer, &cx, "i2");
                async move {
                    work.pay(0).await?;
                    work.done();
                    Ok::<_, NodeError>(Inner::update().done(vec!["second".into()]))
                }
            })
            .end(),
        }
    })
    .start(InnerStep::First)
    .build()
}

/// The graph.
pub fn torture(world: &World) -> Result<Graph<Tale>, doran_engine::BuildError> {
    let below = inner(world)?;
    let world = world.clone();
    Graph::define(move |step| {
        let world = world.clone();
        let made = match step {
            Step::Begin => {
                return node(move |state: Snap<Tale>, cx: Cx| {
                    let work = Work::new(&world, &state, &cx, "b");
                    async move { Ok::<_, NodeError>(Tale::update().links(work.done())) }
                })
                .branch_or_end(AHEAD, ahead);
            }
            Step::Side => {
                return node(move |state: Snap<Tale>, cx: Cx| {
                    let world = world.clone();
                    async move {
                        let item: u64 = cx.input()?;
                        let work = Work::new(&world, &state, &cx, &item.to_string());
                        work.post(0).await?;
                        if item == 1 && state.plan.get(state.place) == Some(&Act::FanAsk) {
                            let _: Value = cx.ask(format!("{}?", state.token)).await?;
                            work.pay(1).await?;
                        }
                        Ok::<_, NodeError>(Tale::update().links(work.done()))
                    }
                })
                .then(Step::Gather);
            }
            Step::Sub => node(subgraph(
                below.clone(),
                |state: &Tale| Inner::update().outer(Tale { text: String::new(), ..state.clone() }),
                |inner: &Inner| {
                    let outer = &inner.outer;
                    let link = format!("{}|{}|{}.s", outer.links.len(), outer.token, outer.place);
                    Tale::update().place(outer.place + 1).links(vec![link])
                },
            )),
            Step::Read | Step::Post | Step::Pay | Step::Mix | Step::Ask | Step::Gather | Step::Bulk => {
                node(move |state: Snap<Tale>, cx: Cx| act(world.clone(), step, state, cx))
            }
        };
        made.branch_or_end(AHEAD, ahead)
    })
    .start(Step::Begin)
    .build()
}

async fn act(world: World, step: Step, state: Snap<Tale>, cx: Cx) -> Result<TaleUpdate, NodeError> {
    let work = Work::new(&world, &state, &cx, if step == Step::Gather { "g" } else { "0" });
    cx.token("…");
    let mut update = Tale::update().place(state.place + 1);
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
    Ok(update.links(work.done()))
}
