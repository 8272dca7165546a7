//! The nodes of the contract agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::state::Changes;
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{Message, Origin, ToolCall, ToolResult};
use serde_json::json;

use super::Contracts;
use super::findings::Findings;
use super::plan::{fresh, proposed};
use super::quote::{cited, with_clause};
use super::requests::{InScope, NeedsPrevious, Sufficiency};
use super::scope::{Scope, is_about_memory, points_back, scope};
use super::state::{Action, ContractState, ContractStateUpdate, Decision, ToolRun, signature};
use crate::language::Language;
use crate::nodes::{Caller, Step, Words, Work, ask_for, call_tools, sorted, tenant, verified_as};
use crate::source::{Source, SourceKind};
use crate::state::{is_standing, spoken};
use crate::tools::Taint;

/// Messages that stay in the working state, beside what holds for all of the conversation: this turn and the one before.
const KEPT_MESSAGES: usize = 4;

/// Decides whether the question is about contracts, and whether a word of it points back. Rules first; a model only
/// where they cannot tell.
pub(super) async fn scope_validator(
    own: Arc<Contracts>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let language = spoken(own.language, &state.messages);
    let work = Work::new(cx, language);
    let has_previous = !state.previous_turn().is_empty();
    let mut back = has_previous && points_back(&state.user_message);
    let in_scope = match scope(&state.user_message) {
        Scope::In => true,
        _ if own.has_memory() && is_about_memory(&state.user_message) => true,
        Scope::Open if back => true,
        Scope::Out if !back => false,
        // Rules cannot tell "그 내용을 번역해줘", which is about the answer before, from "그럼 오늘 날씨는?".
        Scope::Open | Scope::Out => {
            let decided =
                ask_for::<InScope>(&work, &own.models, own.cache.as_ref(), own.scope_request(&state)?)
                    .await?;
            // Whoever cannot tell does not turn people away.
            let decided = decided.unwrap_or_else(|misfit| InScope {
                in_scope: true,
                need_previous_context: false,
                reason: misfit.to_string(),
            });
            work.cx.note("scope", &decided.reason);
            back |= has_previous && decided.need_previous_context;
            decided.in_scope
        }
    };
    let mut progress = state.progress.after("scope_validator", work.calls());
    progress.language = language;
    let session = work.cx.thread().map(|thread| thread.as_str().to_owned());
    let update = ContractState::update().in_scope(Some(in_scope)).session_id(session).progress(progress);
    if in_scope {
        return Ok(if back { update.need_previous_context(Some(true)) } else { update });
    }
    let sentence = out_of_scope(language);
    for word in sentence.split_inclusive(' ') {
        work.cx.token(word);
    }
    Ok(update
        .messages(and_kept(&state.messages, Message::assistant(work.cx.new_id(), sentence)))
        .final_response(Some(sentence.to_owned())))
}

/// Decides whether the turn before is needed, where nobody decided that yet.
pub(super) async fn check_previous_context(
    own: Arc<Contracts>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    let need = if state.need_previous_context.is_some() {
        state.need_previous_context
    } else if state.previous_turn().is_empty() {
        Some(false)
    } else {
        let request = own.previous_request(&state)?;
        let decided = ask_for::<NeedsPrevious>(&work, &own.models, own.cache.as_ref(), request).await?;
        Some(decided.is_ok_and(|decided| decided.need_previous_context))
    };
    let progress = state.progress.after("check_previous_context", work.calls());
    Ok(ContractState::update().need_previous_context(need).progress(progress))
}

/// Chooses what to look up next: what rules propose, and what the model adds.
pub(super) async fn planner(
    own: Arc<Contracts>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    work.thinking(Step::Planning, "무엇을 찾아볼지 정하고 있습니다", "deciding what to look up");
    let desk = own.desk(&state);
    let whose = tenant(&work);
    let titles = async { desk.titles(&whose).await.map_err(sorted) };
    let (documents, titles): (Vec<String>, Vec<String>) = work.cx.effect("titles", titles).await?;
    let first = state.iteration_count == 0 && state.tool_history.is_empty();
    let mut rules = if first { proposed(&state.user_message, &titles) } else { Vec::new() };
    rules.retain(|call| own.may_call(&call.name));
    let request = own.plan_request(&state, &rules, &documents)?;
    let reply = work.ask(&own.models, request, Words::Hidden).await?;
    let wanted: Vec<ToolCall> = rules.into_iter().chain(reply.tool_calls).collect();
    let asked = !wanted.is_empty();
    let next = fresh(&state, wanted);
    let skipped = asked && next.is_empty();
    let names = next.iter().map(signature).collect::<Vec<_>>().join(", ");
    let (ko, en) = match (next.is_empty(), skipped) {
        (false, _) => (names.clone(), names),
        (true, true) => {
            ("고른 도구를 모두 이미 실행했습니다".into(), "everything that was chosen was run before".into())
        }
        (true, false) => ("찾아볼 것이 없습니다".into(), "nothing has to be looked up".into()),
    };
    work.thinking(Step::ToolSelected, ko, en);
    let progress = state.progress.after("planner", work.calls());
    let update = ContractState::update().next_tools(next).all_tools_skipped(skipped).progress(progress);
    // The model has read the names of the documents, and chose with them before it.
    let read = if documents.is_empty() { Taint::default() } else { Taint::from_origin(Origin::Document) };
    let taint = state.taint.and(read);
    Ok(if taint == state.taint { update } else { update.taint(taint) })
}

/// Runs the tools one after another.
pub(super) async fn executor(
    own: Arc<Contracts>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let calls: Vec<Vec<ToolCall>> = state.next_tools.iter().map(|call| vec![call.clone()]).collect();
    execute(&own, &state, cx, &calls, "executor").await
}

/// Runs the tools side by side.
pub(super) async fn parallel_executor(
    own: Arc<Contracts>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    execute(&own, &state, cx, std::slice::from_ref(&state.next_tools), "parallel_executor").await
}

async fn execute(
    own: &Contracts,
    state: &ContractState,
    cx: Cx,
    batches: &[Vec<ToolCall>],
    node: &str,
) -> Result<ContractStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
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
        let caller = Caller { toolbox: &toolbox, read: &state.messages, taint, sessions: &sessions };
        let called = call_tools(&work, &caller, calls).await?;
        taint = taint.and(called.taint);
        sessions.extend(called.sessions.clone());
        changed.extend(called.sessions);
        ran.extend(called.ran);
        for ((call, result), data) in calls.iter().zip(called.results).zip(called.data) {
            let findings: Findings = serde_json::from_value(data).unwrap_or_default();
            for source in findings.found {
                explored.extend(source.article.as_ref().map(|article| named(article, source.kind)));
                collect(&mut collected, source);
            }
            unexplored.extend(findings.refers_to);
            let ToolResult { text, failed, origin, .. } = result;
            let (iteration, call) = (state.iteration_count, call.clone());
            history.push(ToolRun { iteration, call, text, failed, origin, notes: findings.notes });
        }
    }
    each_once(&mut explored);
    each_once(&mut unexplored);
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
        .progress(state.progress.after(node, 0).with_tools(ran.iter().map(String::as_str))))
}

/// An answer, and what of the messages before it stays.
fn and_kept(messages: &[Message], answer: Message) -> Changes<Message> {
    let (standing, said): (Vec<&Message>, Vec<&Message>) =
        messages.iter().partition(|message| is_standing(message));
    let beyond = (said.len() + 1).saturating_sub(KEPT_MESSAGES);
    // A client may word what holds anew with every question; the newest wording is the one that holds.
    let reworded = standing.len().saturating_sub(1);
    let gone = standing[..reworded].iter().chain(&said[..beyond]).map(|message| message.id.as_str());
    Changes::remove(gone).put([answer])
}

/// Adds a place unless it, or a place around it, is there already. Places within it give way to it, and it takes the
/// number of the first of them.
fn collect(collected: &mut Vec<Source>, source: Source) {
    let holds = |outer: &Source, inner: &Source| {
        outer.document == inner.document && outer.start <= inner.start && inner.end <= outer.end
    };
    if collected.iter().any(|known| holds(known, &source)) {
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
            collected[first] = Source { number, ..source };
        }
        None => {
            let most = collected.iter().map(|known| known.number).max().unwrap_or(0);
            collected.push(Source { number: most.saturating_add(1), ..source });
        }
    }
}

fn each_once(names: &mut Vec<String>) {
    let mut seen = Vec::new();
    names.retain(|name| {
        let new = !seen.contains(name);
        if new {
            seen.push(name.clone());
        }
        new
    });
}

/// What an article is called among the articles of both contracts.
fn named(article: &str, kind: SourceKind) -> String {
    if kind == SourceKind::Standard { format!("표준 {article}") } else { article.to_owned() }
}

/// Judges whether what was collected is enough. In the last round nobody is asked.
pub(super) async fn evaluator(
    own: Arc<Contracts>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
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
        let judged = ask_for::<Sufficiency>(&work, &own.models, own.cache.as_ref(), request).await?;
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
    let action = if judged.is_sufficient || last { Action::Finish } else { Action::Continue };
    let decision = Decision {
        iteration,
        action,
        is_sufficient: judged.is_sufficient,
        reasoning: judged.reasoning,
        missing_info: missing_info.clone(),
    };
    work.thinking(Step::EvaluationResult, told(&decision, Language::Ko), told(&decision, Language::En));
    let mut log = state.decision_log.clone();
    log.push(decision);
    Ok(ContractState::update()
        .iteration_count(iteration)
        .decision_log(log)
        .missing_info(missing_info)
        .progress(state.progress.after("evaluator", work.calls())))
}

fn told(decision: &Decision, language: Language) -> String {
    let verdict = match (decision.is_sufficient, decision.action) {
        (true, _) => language.pick("충분합니다", "enough"),
        (false, Action::Continue) => language.pick("더 찾아봅니다", "looking further"),
        (false, Action::Finish) => language.pick("여기까지 찾습니다", "that is all that could be found"),
    };
    let missing = decision.missing_info.as_ref().map(|missing| match language {
        Language::Ko => format!(" (부족한 것: {missing})"),
        Language::En => format!(" (missing: {missing})"),
    });
    format!("{verdict}: {}{}", decision.reasoning, missing.unwrap_or_default())
}

/// Answers from what was collected, and from the turn before where that is needed.
pub(super) async fn respond(
    own: Arc<Contracts>,
    state: Snap<ContractState>,
    cx: Cx,
) -> Result<ContractStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    work.thinking(Step::Generating, "답을 쓰고 있습니다", "writing the answer");
    let mut reply = work.ask(&own.models, own.answer_request(&state)?, Words::Shown).await?;
    reply.tool_calls.clear();
    let sources = cited(&reply.text, &state.collected_info);
    let sources = verified_as(&work, &*own.index, sources, with_clause).await?;
    work.show(json!({ "type": "sources", "sources": sources }));
    let text = reply.text.clone();
    let message = reply.into_message(work.cx.new_id());
    Ok(ContractState::update()
        .messages(and_kept(&state.messages, message))
        .final_response(Some(text))
        .sources(sources)
        .progress(state.progress.after("respond", work.calls())))
}

fn out_of_scope(language: Language) -> &'static str {
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
        let place = |document: &str, start: usize, end: usize| Source {
            document: document.into(),
            start,
            end,
            ..Source::default()
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
            collect(&mut collected, source);
        }
        let told: Vec<String> = collected
            .iter()
            .map(|source| format!("[{}] {} {}..{}", source.number, source.document, source.start, source.end))
            .collect();
        assert_eq!(told, ["[1] 가 0..100", "[2] 나 50..60", "[3] 가 200..210"]);
    }
}
