//! An agent with other names for the fields of its state loses nothing: its sources are cited, its errors are reported.

use std::sync::Arc;

use async_trait::async_trait;
use doran_engine::store::RamStore;
use doran_engine::{
    Cx, EntryBody, Graph, NodeError, Nodes, Runtime, Snap, StartOptions, State, ThreadKey, node,
};
use doran_llm::{ChatRequest, Message, Role, ScriptedModel};
use doran_retrieval::DocumentTenant;
use serde::{Deserialize, Serialize};

use super::{Agent, AgentTurn, AskOptions, ConversationState, RequestExplainer, TurnUpdate};
use crate::citation_numbering::CitationNumbering;
use crate::history::read_history;
use crate::nodes::Models;
use crate::source::AnswerSource;
use crate::state::{ByMessageId, TurnProgress, question_messages};

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct ResearchState {
    #[reduce(rule = ByMessageId)]
    messages: Vec<Message>,
    evidence: Vec<AnswerSource>,
    quoted_works: Vec<AnswerSource>,
    gave_up_because: Option<String>,
    how_far: TurnProgress,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ResearchNode {
    Collect,
    Write,
}

impl ConversationState for ResearchState {
    fn new_turn_update(message: &str, options: &AskOptions) -> ResearchStateUpdate {
        Self::update().messages(question_messages(message, options))
    }

    fn turn(&self) -> AgentTurn {
        let answer = self.messages.iter().rev().find(|message| message.role == Role::Assistant);
        AgentTurn {
            response: answer.map(Message::text).unwrap_or_default(),
            sources: self.quoted_works.clone(),
            ..AgentTurn::from_progress(&self.how_far)
        }
    }

    fn turn_update(update: ResearchStateUpdate) -> TurnUpdate {
        TurnUpdate {
            sources: update.quoted_works.unwrap_or_default(),
            progress: update.how_far,
            error_code: update.gave_up_because.flatten(),
            ..TurnUpdate::default()
        }
        .with_found(&update.evidence.unwrap_or_default())
    }
}

fn source(number: u32) -> AnswerSource {
    AnswerSource { number, title: format!("work {number}"), ..AnswerSource::default() }
}

async fn collect(state: Snap<ResearchState>, _: Cx) -> Result<ResearchStateUpdate, NodeError> {
    let evidence: Vec<AnswerSource> = (1..=9).map(source).collect();
    Ok(ResearchState::update().evidence(evidence).how_far(state.how_far.after_node("collect", 0)))
}

async fn write(state: Snap<ResearchState>, cx: Cx) -> Result<ResearchStateUpdate, NodeError> {
    Ok(ResearchState::update()
        .messages(Message::assistant(cx.new_id(), "둘째 [7], 첫째 [3]"))
        .quoted_works(vec![source(3), source(7)])
        .gave_up_because(Some("library_closed".into()))
        .how_far(state.how_far.after_node("write", 1)))
}

fn research_agent() -> Agent {
    let graph = Graph::define(|step| match step {
        ResearchNode::Collect => node(collect).then(ResearchNode::Write),
        ResearchNode::Write => node(write).end(),
    })
    .start(ResearchNode::Collect)
    .build()
    .expect("a sound graph");
    let models = Models::single(Arc::new(ScriptedModel::new([])));
    Agent::from_conversation("research", &models, &graph, Arc::new(NoModelRequests))
}

/// An agent that asks no model.
struct NoModelRequests;

#[async_trait]
impl RequestExplainer<ResearchState> for NoModelRequests {
    async fn explain(
        &self,
        _: &str,
        _: &ResearchState,
        _: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn an_agent_with_other_field_names_keeps_its_citations_its_progress_and_its_error() {
    let (runtime, agent) = (Runtime::new(Arc::new(RamStore::new())), research_agent());
    agent.register(&runtime).expect("registered");
    let thread = ThreadKey::local("t").expect("a thread");
    let input = agent.input("무엇을 찾았어?", &AskOptions::default());
    let run = runtime.start("research", &thread, Some(&input), StartOptions::default()).await;
    run.expect("started").wait().await.expect("finished");

    let mut citations = CitationNumbering::default();
    let mut last = TurnUpdate::default();
    for entry in runtime.entries(&thread, 0, 100).await.expect("entries") {
        let EntryBody::Step(step) = entry.body else { continue };
        for task in &step.tasks {
            last = agent.read_update(task.update.get()).expect("an update");
            citations.add_source_numbers(last.found.iter().copied());
        }
    }
    assert_eq!(citations.push_text("둘째 [7], 첫째 [3], 없는 [12]."), "둘째 [1], 첫째 [2], 없는 [12].");
    assert_eq!(last.error_code.as_deref(), Some("library_closed"));
    assert_eq!(last.progress.expect("progress").path, ["collect", "write"]);

    let history = read_history(&runtime, &thread, std::slice::from_ref(&agent)).await.expect("a history");
    let answer = history.last().expect("an answer").clone().with_renumbered_sources();
    assert_eq!(answer.message.text(), "둘째 [1], 첫째 [2]");
    let titles: Vec<&str> = answer.sources.iter().map(|source| source.title.as_str()).collect();
    assert_eq!(titles, ["work 7", "work 3"]);
}
