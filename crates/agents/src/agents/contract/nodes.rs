//! The nodes of the contract agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::state::ItemChanges;
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{Message, TextOrigin, ToolCall, ToolResult};
use doran_retrieval::{DocumentId, Language};
use serde_json::Value;

use super::ContractAgent;
use super::call_planning::new_calls_only;
use super::findings::{ContractFindings, article_label};
use super::quote::{cited_sources, with_clause};
use super::requests::{InScope, NeedsPrevious, Sufficiency};
use super::scope::{ScopeVerdict, is_about_memory, scope_by_rules};
use super::state::{
    ContractState, ContractStateUpdate, SufficiencyAction, SufficiencyDecision, ToolRun, call_signature,
};
use super::tools::other_kind_message;
use crate::agents::TurnRequest;
use crate::anaphora::refers_to_previous_turn;
use crate::nodes::{
    NodeWork, ReplyVisibility, ToolCaller, ask_structured, call_tools, retrieval_tenant, retrieve_node_error,
    verify_sources_with,
};
use crate::protocol::{AgentActivity, ThinkingStep};
use crate::source::AnswerSource;
use crate::state::{conversation_language, is_standing_instruction};
use crate::tools::{Taint, names};

/// Messages that stay in the working state, beside what holds for all of the conversation: this turn and the one before.
const MAX_WORKING_MESSAGES: usize = 4;

/// Decides whether the question is about contracts, and whether a word of it points back. Rules first; a model only
/// where they cannot tell.
pub(super) async fn scope_validator(
    own: Arc<ContractAgent>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let language = conversation_language(own.language, &state.messages);
    let work = NodeWork::new(cx, &state.progress).in_language(language);
    if let Some(update) = answer_unknown_contract(&own, &state, &work).await? {
        return Ok(update);
    }
    let has_previous = !state.previous_turn().is_empty();
    let mut need_previous = None;
    let back = has_previous && refers_to_previous_turn(&state.user_message);
    let in_scope = match scope_by_rules(&state.user_message) {
        ScopeVerdict::In => true,
        _ if own.has_memory() && is_about_memory(&state.user_message) => true,
        ScopeVerdict::Undecided if back => true,
        ScopeVerdict::Out if !back => false,
        // Rules cannot tell "그 내용을 번역해줘", which is about the answer before, from "그럼 오늘 날씨는?".
        ScopeVerdict::Undecided | ScopeVerdict::Out => {
            let decided =
                ask_structured::<InScope>(&work, &own.models, own.cache.as_ref(), own.scope_request(&state)?)
                    .await?;
            match decided {
                Ok(decided) => {
                    work.cx.note("scope", &decided.reason);
                    need_previous = Some(has_previous && decided.need_previous_context);
                    decided.in_scope
                }
                // Without a decision the question is answered.
                Err(misfit) => {
                    work.cx.note("scope", misfit.to_string());
                    true
                }
            }
        }
    };
    if back {
        need_previous = Some(true);
    }
    let mut progress = state.progress.after_node("scope_validator", work.model_calls());
    progress.language = language;
    let session = work.cx.thread().map(|thread| thread.as_str().to_owned());
    let update = ContractState::update().in_scope(Some(in_scope)).session_id(session).progress(progress);
    if in_scope {
        // The next node does not ask a model again what was decided.
        return Ok(if need_previous.is_some() {
            update.need_previous_context(need_previous)
        } else {
            update
        });
    }
    Ok(say_instead_of_answer(&work, &state, update, out_of_scope_message(language)))
}

/// The sentence as the answer of the turn, streamed like any other.
fn say_instead_of_answer(
    work: &NodeWork,
    state: &ContractState,
    update: ContractStateUpdate,
    sentence: &str,
) -> ContractStateUpdate {
    for word in sentence.split_inclusive(' ') {
        work.show_reply_text(word);
    }
    update
        .messages(append_answer_and_trim(&state.messages, Message::assistant(work.take_reply_id(), sentence)))
        .final_response(Some(sentence.to_owned()))
}

/// The end of a turn about a contract that nobody has. Another one never takes its place.
async fn answer_unknown_contract(
    own: &ContractAgent,
    state: &ContractState,
    work: &NodeWork,
) -> Result<Option<ContractStateUpdate>, NodeError> {
    let Some(id) = &state.contract_id else { return Ok(None) };
    let (contract_documents, tenant) = (own.documents(state), retrieval_tenant(work)?);
    let look = async {
        let found = contract_documents
            .load_document(&tenant, &DocumentId::new(id))
            .await
            .map_err(retrieve_node_error)?;
        if found.is_some() {
            return Ok::<_, NodeError>(None);
        }
        let known = contract_documents.contract_names(&tenant).await.map_err(retrieve_node_error)?;
        let others = match known.as_slice() {
            [] => contract_documents.documents_with_articles(&tenant).await.map_err(retrieve_node_error)?,
            _ => Vec::new(),
        };
        Ok(Some((known, others)))
    };
    let known: Option<(Vec<String>, Vec<String>)> = work.cx.effect("contract", look).await?;
    let Some((known, others)) = known else { return Ok(None) };
    let mut progress = state.progress.after_node("scope_validator", 0);
    progress.language = work.language;
    let session = work.cx.thread().map(|thread| thread.as_str().to_owned());
    let update = ContractState::update().session_id(session).progress(progress);
    let sentence = unknown_contract_message(id, &known, &others, work.language);
    Ok(Some(say_instead_of_answer(work, state, update, &sentence)))
}

fn unknown_contract_message(id: &str, known: &[String], others: &[String], language: Language) -> String {
    let list = known.iter().map(|name| format!("\n- {name}")).collect::<String>();
    match known {
        [] if !others.is_empty() => {
            let why = other_kind_message(others, language);
            language.pick(
                format!("계약서 `{id}`이(가) 없습니다. {why}."),
                format!("There is no contract `{id}`: {why}."),
            )
        }
        [] => language.pick(
            format!("계약서 `{id}`이(가) 없습니다. 등록된 계약서도 없습니다. 계약서를 먼저 올려 주세요."),
            format!("There is no contract `{id}`, and no other contract either. Please add one first."),
        ),
        _ => language.pick(
            format!("계약서 `{id}`이(가) 없습니다. 등록된 계약서는 다음과 같습니다.{list}"),
            format!("There is no contract `{id}`. The contracts are:{list}"),
        ),
    }
}

/// Decides whether the turn before is needed, where nobody decided that yet.
pub(super) async fn check_previous_context(
    own: Arc<ContractAgent>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    let need = if state.need_previous_context.is_some() {
        state.need_previous_context
    } else if state.previous_turn().is_empty() {
        Some(false)
    } else {
        let request = own.previous_request(&state)?;
        let decided =
            ask_structured::<NeedsPrevious>(&work, &own.models, own.cache.as_ref(), request).await?;
        Some(decided.is_ok_and(|decided| decided.need_previous_context))
    };
    let progress = state.progress.after_node("check_previous_context", work.model_calls());
    Ok(ContractState::update().need_previous_context(need).progress(progress))
}

/// Chooses what to look up next: what rules propose, and what the model adds.
pub(super) async fn planner(
    own: Arc<ContractAgent>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    work.show_thinking(ThinkingStep::Planning, "무엇을 찾아볼지 정하고 있습니다", "deciding what to look up");
    let contract_documents = own.documents(&state);
    let whose = retrieval_tenant(&work)?;
    let titles = async { contract_documents.planner_titles(&whose).await.map_err(retrieve_node_error) };
    let (documents, articles): (Vec<String>, Vec<String>) = work.cx.effect("titles", titles).await?;
    let rules = own.calls_by_rules(&state, &articles);
    let request = own.plan_request(&state, &rules, &documents)?;
    let reply = work.ask(&own.models, request, ReplyVisibility::Hidden).await?;
    let wanted: Vec<ToolCall> = rules.into_iter().chain(reply.tool_calls).collect();
    let has_calls = !wanted.is_empty();
    let next = new_calls_only(&state, wanted);
    let skipped = has_calls && next.is_empty();
    let names = next.iter().map(call_signature).collect::<Vec<_>>().join(", ");
    let (ko, en) = match (next.is_empty(), skipped) {
        (false, _) => (names.clone(), names),
        (true, true) => {
            ("고른 도구를 모두 이미 실행했습니다".into(), "everything that was chosen was run before".into())
        }
        (true, false) => ("찾아볼 것이 없습니다".into(), "nothing has to be looked up".into()),
    };
    work.show_thinking(ThinkingStep::ToolSelected, ko, en);
    let progress = state.progress.after_node("planner", work.model_calls());
    let update = ContractState::update().next_tools(next).all_tools_skipped(skipped).progress(progress);
    // The model has read the names of the documents, and chose with them before it.
    let read = if documents.is_empty() { Taint::default() } else { Taint::from_origin(TextOrigin::Document) };
    let taint = state.taint.union(read);
    Ok(if taint == state.taint { update } else { update.taint(taint) })
}

/// Runs the tools one after another.
pub(super) async fn executor(
    own: Arc<ContractAgent>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let calls: Vec<Vec<ToolCall>> = state.next_tools.iter().map(|call| vec![call.clone()]).collect();
    execute_calls(&own, &state, cx, &calls, "executor").await
}

/// Runs the tools side by side.
pub(super) async fn parallel_executor(
    own: Arc<ContractAgent>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    execute_calls(&own, &state, cx, std::slice::from_ref(&state.next_tools), "parallel_executor").await
}

async fn execute_calls(
    own: &ContractAgent,
    state: &ContractState,
    cx: Cx,
    batches: &[Vec<ToolCall>],
    node: &str,
) -> Result<ContractStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    let toolbox = own.toolbox(state)?;
    let mut sessions = state.sessions.clone();
    let mut changed = BTreeMap::new();
    let mut history = state.tool_history.clone();
    let mut collected = state.collected_info.clone();
    let mut explored = state.explored_articles.clone();
    let mut unexplored = state.unexplored_articles.clone();
    let mut taint = state.taint;
    let mut ran = Vec::new();
    for calls in batches {
        let caller = ToolCaller {
            toolbox: &toolbox,
            read_messages: &state.messages,
            taint,
            sessions: &sessions,
            turn_request: &TurnRequest::default(),
        };
        let called = call_tools(&work, &caller, calls).await?;
        taint = taint.union(called.taint);
        sessions.extend(called.sessions.clone());
        changed.extend(called.sessions);
        ran.extend(called.tools_run);
        for ((call, result), data) in calls.iter().zip(called.results).zip(called.data) {
            let findings = findings_of(call, &result, data)?;
            for source in findings.found {
                explored.extend(source.article.as_ref().map(|article| article_label(article, source.kind)));
                collect_source(&mut collected, source);
            }
            unexplored.extend(findings.refers_to);
            let ToolResult { text, failed, origin, .. } = result;
            let (iteration, call) = (state.iteration_count, call.clone());
            history.push(ToolRun { iteration, call, text, failed, origin, notes: findings.notes });
        }
    }
    remove_duplicates(&mut explored);
    remove_duplicates(&mut unexplored);
    unexplored.retain(|article| !explored.contains(article));
    let update = ContractState::update();
    let update = if changed.is_empty() { update } else { update.sessions(changed) };
    Ok(update
        .tool_history(history)
        .collected_info(collected)
        .explored_articles(explored)
        .unexplored_articles(unexplored)
        .next_tools(Vec::new())
        .taint(taint)
        .progress(state.progress.after_node(node, 0).after_tool_round(ran.iter().map(String::as_str))))
}

/// What one of the agent's own tools found. Any other tool, and a call that failed, found no places.
fn findings_of(call: &ToolCall, result: &ToolResult, data: Value) -> Result<ContractFindings, NodeError> {
    if result.failed || !names::CONTRACT_TOOLS.contains(&call.name.as_str()) {
        return Ok(ContractFindings::default());
    }
    serde_json::from_value(data).map_err(|error| {
        NodeError::permanent(format!("what the tool `{}` found cannot be read: {error}", call.name))
    })
}

/// An answer, and what of the messages before it stays.
fn append_answer_and_trim(messages: &[Message], answer: Message) -> ItemChanges<Message> {
    let (standing, spoken): (Vec<&Message>, Vec<&Message>) =
        messages.iter().partition(|message| is_standing_instruction(message));
    let beyond = (spoken.len() + 1).saturating_sub(MAX_WORKING_MESSAGES);
    // A client may word what holds anew with every question; the newest wording is the one that holds.
    let reworded = standing.len().saturating_sub(1);
    let gone = standing[..reworded].iter().chain(&spoken[..beyond]).map(|message| message.id.as_str());
    ItemChanges::remove(gone).put([answer])
}

/// Adds a place unless it, or a place around it, is there already; what its title says beyond the known one is kept. Places within it give way to it, and it takes the
/// number of the first of them.
fn collect_source(collected: &mut Vec<AnswerSource>, source: AnswerSource) {
    let holds = |outer: &AnswerSource, inner: &AnswerSource| {
        outer.document == inner.document && outer.start <= inner.start && inner.end <= outer.end
    };
    if let Some(known) = collected.iter_mut().find(|known| holds(known, &source)) {
        // A comparison may have more to say of a place that was found before it.
        if holds(&source, known) && source.title.starts_with(&known.title) {
            known.title = source.title;
        }
        return;
    }
    match collected.iter().position(|known| holds(&source, known)) {
        Some(first) => {
            let number = collected[first].number;
            let mut at = 0;
            collected.retain(|known| {
                at += 1;
                at <= first + 1 || !holds(&source, known)
            });
            collected[first] = AnswerSource { number, ..source };
        }
        None => {
            let highest = collected.iter().map(|known| known.number).max().unwrap_or(0);
            collected.push(AnswerSource { number: highest.saturating_add(1), ..source });
        }
    }
}

fn remove_duplicates(names: &mut Vec<String>) {
    let mut seen = Vec::new();
    names.retain(|name| {
        let new = !seen.contains(name);
        if new {
            seen.push(name.clone());
        }
        new
    });
}

/// Judges whether what was collected is enough. In the last round no model is called.
pub(super) async fn evaluator(
    own: Arc<ContractAgent>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    let language = state.progress.language;
    let iteration = state.iteration_count + 1;
    let last = iteration >= own.max_iterations;
    let judged = if last {
        let reasoning = language.pick("찾아보는 횟수를 다 썼습니다", "the rounds of looking up are used up");
        Sufficiency {
            is_sufficient: false,
            reasoning: reasoning.into(),
            missing_info: state.missing_info.clone(),
        }
    } else {
        let request = own.evaluate_request(&state)?;
        let judged = ask_structured::<Sufficiency>(&work, &own.models, own.cache.as_ref(), request).await?;
        // Nobody can say what is missing, so looking further would be blind.
        judged.unwrap_or_else(|misfit| Sufficiency {
            is_sufficient: true,
            reasoning: language.pick(
                format!("평가가 두 번 다 형식에 맞지 않아 모은 것으로 답합니다: {misfit}"),
                format!(
                    "the evaluation did not fit twice, so the answer is given from what there is: {misfit}"
                ),
            ),
            missing_info: None,
        })
    };
    let missing_info = judged.missing_info.filter(|missing| !missing.trim().is_empty() && missing != "null");
    let action =
        if judged.is_sufficient || last { SufficiencyAction::Finish } else { SufficiencyAction::Continue };
    let decision = SufficiencyDecision {
        iteration,
        action,
        is_sufficient: judged.is_sufficient,
        reasoning: judged.reasoning,
        missing_info: missing_info.clone(),
    };
    work.show_thinking(
        ThinkingStep::EvaluationResult,
        decision_text(&decision, Language::Korean),
        decision_text(&decision, Language::English),
    );
    let mut log = state.decision_log.clone();
    log.push(decision);
    Ok(ContractState::update()
        .iteration_count(iteration)
        .decision_log(log)
        .missing_info(missing_info)
        .progress(state.progress.after_node("evaluator", work.model_calls())))
}

fn decision_text(decision: &SufficiencyDecision, language: Language) -> String {
    let verdict = match (decision.is_sufficient, decision.action) {
        (true, _) => language.pick("충분합니다", "enough"),
        (false, SufficiencyAction::Continue) => language.pick("더 찾아봅니다", "looking further"),
        (false, SufficiencyAction::Finish) => {
            language.pick("여기까지 찾습니다", "that is all that could be found")
        }
    };
    let missing = decision.missing_info.as_ref().map(|missing| match language {
        Language::Korean => format!(" (부족한 것: {missing})"),
        Language::English => format!(" (missing: {missing})"),
    });
    format!("{verdict}: {}{}", decision.reasoning, missing.unwrap_or_default())
}

/// Answers from what was collected, and from the turn before where that is needed.
pub(super) async fn respond(
    own: Arc<ContractAgent>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    if let Some(sentence) = explain_missing_contracts(&own, &state, &work).await? {
        let update = ContractState::update().progress(state.progress.after_node("respond", 0));
        return Ok(say_instead_of_answer(&work, &state, update, &sentence));
    }
    work.show_thinking(ThinkingStep::Generating, "답을 쓰고 있습니다", "writing the answer");
    let mut reply = work.ask(&own.models, own.answer_request(&state)?, ReplyVisibility::Shown).await?;
    reply.tool_calls.clear();
    let sources = cited_sources(&reply.text, &state.collected_info);
    let sources = verify_sources_with(&work, &*own.index, sources, with_clause).await?;
    work.show_activity(AgentActivity::Sources { sources: sources.clone() });
    let text = reply.text.clone();
    let message = reply.into_message(work.take_reply_id());
    Ok(ContractState::update()
        .messages(append_answer_and_trim(&state.messages, message))
        .final_response(Some(text))
        .sources(sources)
        .progress(state.progress.after_node("respond", work.model_calls())))
}

/// Why nothing was found, when no document is a contract by its kind but some are written in articles: one of them may be a
/// contract that was ingested as something else.
async fn explain_missing_contracts(
    own: &ContractAgent,
    state: &ContractState,
    work: &NodeWork,
) -> Result<Option<String>, NodeError> {
    let is_about_something_else = state.contract_id.is_some()
        || state.need_previous_context == Some(true)
        || own.has_memory() && is_about_memory(&state.user_message);
    if !state.collected_info.is_empty() || is_about_something_else {
        return Ok(None);
    }
    let (contract_documents, tenant) = (own.documents(state), retrieval_tenant(work)?);
    let look = async {
        if !contract_documents.contract_names(&tenant).await.map_err(retrieve_node_error)?.is_empty() {
            return Ok::<_, NodeError>(Vec::new());
        }
        contract_documents.documents_with_articles(&tenant).await.map_err(retrieve_node_error)
    };
    let others: Vec<String> = work.cx.effect("contracts", look).await?;
    Ok((!others.is_empty()).then(|| format!("{}.", other_kind_message(&others, work.language))))
}

fn out_of_scope_message(language: Language) -> &'static str {
    language.pick(
        "죄송합니다. 저는 계약서에 관한 질문에만 답할 수 있습니다. 계약 조항이나 표준계약서에 대해 물어봐 주세요.",
        "I am sorry, I can only answer questions about contracts. Please ask about an article or about the standard contract.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_gives_way_to_the_one_around_it_and_leaves_it_its_number() {
        let place = |document: &str, start: usize, end: usize| AnswerSource {
            document: document.into(),
            start,
            end,
            ..AnswerSource::default()
        };
        let mut collected = Vec::new();
        for source in [
            place("가", 50, 60),
            place("나", 50, 60),
            place("가", 70, 80),
            place("가", 0, 100),
            place("가", 10, 20),
            place("가", 200, 210),
        ] {
            collect_source(&mut collected, source);
        }
        let lines: Vec<String> = collected
            .iter()
            .map(|source| format!("[{}] {} {}..{}", source.number, source.document, source.start, source.end))
            .collect();
        assert_eq!(lines, ["[1] 가 0..100", "[2] 나 50..60", "[3] 가 200..210"]);
    }

    #[test]
    fn a_place_that_is_found_again_keeps_what_was_said_of_it() {
        let place = |title: &str| AnswerSource { title: title.into(), end: 10, ..AnswerSource::default() };
        let (plain, remarked) = ("계약서 › 제5조(인력)", "계약서 › 제5조(인력) › 「표준」에 없는 조항");
        for order in [[plain, remarked], [remarked, plain]] {
            let mut collected = Vec::new();
            order.iter().for_each(|title| collect_source(&mut collected, place(title)));
            let titles: Vec<&str> = collected.iter().map(|source| source.title.as_str()).collect();
            assert_eq!(titles, [remarked]);
        }
    }
}
