//! Reads a thread as the store holds it and compares it with the ledger.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::ledger::{RequestOutcome, TortureLedger, Violation};
use crate::victim_process::{VictimProcess, VictimReply};
use crate::victim_protocol::{
    ExternalCallKind, ThreadDump, ThreadDumpEntry, ThreadDumpRun, VictimRequest, hash_links,
    links_in_step_body,
};

/// Reads these threads from a victim and checks them. An error says that the victim does not answer any more.
pub fn check_threads(victim: &VictimProcess, names: &[String], ledger: &TortureLedger) -> Result<(), String> {
    for name in names {
        match victim.ask(VictimRequest::Dump { thread: name.clone() }) {
            VictimReply::Ok(dump) => {
                let dump: ThreadDump = serde_json::from_value(dump).map_err(|error| error.to_string())?;
                check_thread(name, &dump, ledger);
            }
            VictimReply::Refused(refusal) if refusal.code == "not_found" => {
                check_thread(name, &ThreadDump::empty(), ledger);
            }
            VictimReply::Refused(refusal) => {
                ledger.record_violation(
                    Violation::Damaged,
                    format!("thread {name} cannot be read: {}", refusal.message),
                );
            }
            VictimReply::NoAnswer => return Err("a victim does not answer".into()),
        }
    }
    Ok(())
}

/// Checks one thread. What is wrong goes into the ledger.
pub fn check_thread(name: &str, dump: &ThreadDump, ledger: &TortureLedger) {
    let check = ThreadCheck { name, dump, ledger };
    check.check_entry_numbers();
    check.check_runs_do_not_interleave();
    let states = check.fold_log();
    check.check_run_status();
    check.check_inputs();
    check.check_answers();
    check.check_observed_events();
    check.check_observed_outcomes();
    check.check_external_calls(&states);
}

struct ThreadCheck<'a> {
    name: &'a str,
    dump: &'a ThreadDump,
    ledger: &'a TortureLedger,
}

/// A state by our own reading of the log.
#[derive(Clone, Default)]
struct FoldedThreadState {
    fields: Map<String, Value>,
    links: Vec<String>,
}

impl FoldedThreadState {
    fn apply(&mut self, update: &Value) {
        for (field, value) in update.as_object().into_iter().flatten() {
            if field == "links" {
                let more = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                self.links.extend(more.map(str::to_owned));
            } else {
                self.fields.insert(field.clone(), value.clone());
            }
        }
    }
}

impl ThreadCheck<'_> {
    fn record_violation(&self, broken: Violation, what: impl std::fmt::Display) {
        self.ledger.record_violation(broken, format!("thread {}: {what}", self.name));
    }

    /// Entries are numbered from 1 without a gap, up to the head.
    fn check_entry_numbers(&self) {
        let numbers = self.dump.entries.iter().map(|entry| entry.seq);
        if !numbers.eq(1..=self.dump.head) {
            let seqs: Vec<u64> = self.dump.entries.iter().map(|entry| entry.seq).collect();
            self.record_violation(Violation::Events, format!("head {} and entries {seqs:?}", self.dump.head));
        }
    }

    /// The entries of a run lie side by side: runs never interleave.
    fn check_runs_do_not_interleave(&self) {
        let mut over: HashSet<&str> = HashSet::new();
        let mut current = None;
        for entry in &self.dump.entries {
            let run = entry.run.as_deref();
            if run != current {
                current.map(|run| over.insert(run));
                if let Some(run) = run
                    && (over.contains(run) || entry.kind != "started")
                {
                    self.record_violation(
                        Violation::Torn,
                        format!("entry {} of run {run} stands apart", entry.seq),
                    );
                }
                current = run;
            }
        }
    }

    /// Folds the log along its branches. Gives the hash of each state that ever was a step boundary.
    fn fold_log(&self) -> HashSet<(usize, String)> {
        let tokens: HashMap<&str, &str> =
            self.dump.runs.iter().map(|run| (run.run.as_str(), run.token.as_str())).collect();
        let mut states: BTreeMap<u64, FoldedThreadState> =
            BTreeMap::from([(0, FoldedThreadState::default())]);
        let mut hashes = HashSet::new();
        for entry in &self.dump.entries {
            let Some(mut state) = states.get(&entry.parent).cloned() else {
                self.record_violation(
                    Violation::Torn,
                    format!("entry {} hangs on {}", entry.seq, entry.parent),
                );
                continue;
            };
            match entry.kind.as_str() {
                "started" => state.apply(&entry.body["update"]),
                "step" => {
                    let token =
                        entry.run.as_deref().and_then(|run| tokens.get(run)).copied().unwrap_or_default();
                    self.check_step_links(entry, token, &state);
                    for task in entry.body["tasks"].as_array().into_iter().flatten() {
                        state.apply(&task["update"]);
                    }
                }
                _ => {}
            }
            hashes.insert((state.links.len(), hash_links(&state.links)));
            states.insert(entry.seq, state);
        }
        if let Some(newest) = states.get(&self.dump.head) {
            self.check_newest_state(newest);
        }
        hashes
    }

    /// A step saw exactly the state it follows, and none of its tasks stands in it already.
    fn check_step_links(&self, entry: &ThreadDumpEntry, token: &str, before: &FoldedThreadState) {
        for link in links_in_step_body(&entry.body) {
            let wanted = format!("{}|{token}|", before.links.len());
            if !link.starts_with(&wanted) {
                self.record_violation(
                    Violation::Torn,
                    format!("entry {}: link {link}, not {wanted}…", entry.seq),
                );
            }
            if before.links.contains(&link) {
                self.record_violation(
                    Violation::Doubled,
                    format!("entry {}: link {link} stands there already", entry.seq),
                );
            }
            self.ledger.record_completed_task(&link);
        }
    }

    /// What the victim reads, snapshots and all, is what the log says.
    fn check_newest_state(&self, newest: &FoldedThreadState) {
        let theirs = self.dump.state["links"].as_array().cloned().unwrap_or_default();
        let ours: Vec<Value> = newest.links.iter().map(|link| Value::from(link.as_str())).collect();
        if theirs != ours {
            self.record_violation(Violation::Torn, format!("links {theirs:?} instead of {ours:?}"));
        }
        for (field, value) in &newest.fields {
            if self.dump.state.get(field) != Some(value) {
                self.record_violation(Violation::Torn, format!("field {field} is not what the log says"));
            }
        }
    }

    /// Status and entries of each run agree.
    fn check_run_status(&self) {
        for run in &self.dump.runs {
            let entries: Vec<&ThreadDumpEntry> = self.entries_of(run).collect();
            let kinds: Vec<&str> = entries.iter().map(|entry| entry.kind.as_str()).collect();
            let last = kinds.last().copied().unwrap_or_default();
            let ends =
                kinds.iter().filter(|kind| matches!(**kind, "finished" | "cancelled" | "failed")).count();
            let fine = match run.status.as_str() {
                "queued" => entries.is_empty(),
                "running" => !entries.is_empty() && ends == 0,
                "paused" => last == "paused" && ends == 0,
                "cancelled" => entries.is_empty() || last == "cancelled" && ends == 1,
                "finished" => last == "finished" && ends == 1,
                _ => false,
            };
            if !fine {
                let error = run.error.as_deref().unwrap_or("no error");
                self.record_violation(
                    Violation::Ends,
                    format!("run {} is {} ({error}), its entries {kinds:?}", run.run, run.status),
                );
            }
            if run.first != entries.first().map(|entry| entry.seq) {
                self.record_violation(
                    Violation::Ends,
                    format!("run {} does not begin at {:?}", run.run, run.first),
                );
            }
            if ends == 1 && run.last != entries.last().map(|entry| entry.seq) {
                self.record_violation(
                    Violation::Ends,
                    format!("run {} does not end at {:?}", run.run, run.last),
                );
            }
        }
    }

    /// Acknowledged inputs are there, refused ones are not, and there is one run for each.
    fn check_inputs(&self) {
        let mut by_token: HashMap<&str, Vec<&ThreadDumpRun>> = HashMap::new();
        for run in &self.dump.runs {
            by_token.entry(&run.token).or_default().push(run);
        }
        for (token, runs) in &by_token {
            if runs.len() > 1 {
                self.record_violation(
                    Violation::Doubled,
                    format!("{} runs for one input {token}", runs.len()),
                );
            }
        }
        let starts = self.ledger.starts_of_thread(self.name);
        let maybe: HashSet<&str> = starts
            .iter()
            .filter(|(_, outcome)| !matches!(outcome, RequestOutcome::Refused(_)))
            .map(|(start, _)| start.token.as_str())
            .collect();
        for (start, outcome) in &starts {
            let found = by_token.get(start.token.as_str()).and_then(|runs| runs.first());
            match outcome {
                RequestOutcome::Acknowledged(run) => {
                    if found.is_none_or(|found| found.run != *run) {
                        let there: Vec<&str> = self.dump.runs.iter().map(|run| run.token.as_str()).collect();
                        let what = format!("{start:?} of run {run} is gone: {found:?}, there are {there:?}");
                        self.record_violation(Violation::Lost, what);
                    }
                }
                RequestOutcome::Refused(code) => {
                    if found.is_some() && !maybe.contains(start.token.as_str()) {
                        self.record_violation(
                            Violation::Lost,
                            format!("input {} was refused ({code}) and is there", start.token),
                        );
                    }
                }
                RequestOutcome::Unknown => {}
            }
        }
        for run in self.dump.runs.iter().filter(|run| run.first.is_some()) {
            let input = self.entries_of(run).next().map(|entry| entry.body["update"]["token"].clone());
            if input.as_ref().and_then(Value::as_str) != Some(run.token.as_str()) {
                self.record_violation(
                    Violation::Lost,
                    format!("the input of run {} is {input:?}, not {}", run.run, run.token),
                );
            }
        }
        for run in self.ledger.cancels_of_thread(self.name) {
            let row = self.dump.runs.iter().find(|row| row.run == run);
            let fine = row.is_some_and(|row| match row.status.as_str() {
                "cancelled" | "finished" => true,
                // Until it rests the wish alone is there.
                "running" => row.cancel_asked,
                _ => false,
            });
            if !fine {
                self.record_violation(Violation::Lost, format!("run {run} was to be cancelled: {row:?}"));
            }
        }
    }

    /// Each question is answered once, by what was acknowledged.
    fn check_answers(&self) {
        for run in &self.dump.runs {
            let mut used: HashMap<&str, Vec<&Value>> = HashMap::new();
            for entry in self.entries_of(run).filter(|entry| entry.kind == "resumed") {
                for (question, value) in entry.body["answers"].as_object().into_iter().flatten() {
                    used.entry(question).or_default().push(value);
                }
            }
            for (question, values) in &used {
                if values.len() > 1 {
                    self.record_violation(
                        Violation::Doubled,
                        format!("question {question} of {} took {values:?}", run.run),
                    );
                }
            }
            let all_sent = self.ledger.answers_of_run(&run.run);
            for sent in &all_sent {
                // Two clients may send the same words, of which one is refused.
                let sent_by_another = all_sent.iter().any(|other| {
                    (&other.question, &other.value) == (&sent.question, &sent.value)
                        && !matches!(other.outcome, RequestOutcome::Refused(_))
                });
                let there =
                    used.get(sent.question.as_str()).is_some_and(|values| values.contains(&&sent.value));
                match &sent.outcome {
                    RequestOutcome::Acknowledged(_) if !there => {
                        self.record_violation(
                            Violation::Lost,
                            format!("answer {} to {} is gone", sent.value, sent.question),
                        );
                    }
                    RequestOutcome::Refused(code) if there && !sent_by_another => {
                        let what = format!("answer {} was refused ({code}) and is there", sent.value);
                        self.record_violation(Violation::Lost, what);
                    }
                    _ => {}
                }
            }
        }
    }

    /// What watchers saw is in the log, under the same number. A run that was cancelled before it began has no entry; its
    /// watchers are told by its row.
    fn check_observed_events(&self) {
        for run in &self.dump.runs {
            let entries: Vec<&ThreadDumpEntry> = self.entries_of(run).collect();
            for seen in self.ledger.observed_entries_of_run(&run.run) {
                let place = usize::try_from(seen.number).ok().and_then(|number| number.checked_sub(1));
                let entry = place.and_then(|place| entries.get(place));
                let same = entry.is_some_and(|entry| {
                    entry.digest == seen.digest && entry.seq == seen.seq && entry.kind == seen.kind
                });
                let told_by_row = entries.is_empty()
                    && (seen.number, seen.seq, seen.kind.as_str()) == (1, 0, "cancelled")
                    && run.status == "cancelled";
                if !same && !told_by_row {
                    let what = format!("event {} of {} was shown and is not there", seen.number, run.run);
                    self.record_violation(Violation::Events, what);
                }
            }
        }
    }

    /// What those who waited for a run saw is in the log.
    fn check_observed_outcomes(&self) {
        for outcome in self.ledger.outcomes_of_thread(self.name) {
            let says_so = |entry: &&ThreadDumpEntry| {
                let asks = entry.body["asks"].as_array().map(Vec::as_slice).unwrap_or_default();
                entry.run.as_deref() == Some(&outcome.run)
                    && entry.kind == outcome.kind
                    && outcome.questions.iter().all(|id| asks.iter().any(|ask| ask["id"] == id.as_str()))
            };
            if self.dump.entries.iter().find(says_so).is_none() {
                self.record_violation(Violation::Lost, format!("a waiter saw {outcome:?}, and it is gone"));
            }
        }
    }

    /// Every state a node saw was a step boundary, and every task in the log was seen to end.
    fn check_external_calls(&self, states: &HashSet<(usize, String)>) {
        let external_calls = self.ledger.calls_of_thread(self.name);
        let mut done: HashSet<(&str, &str)> = HashSet::new();
        for external_call in &external_calls {
            if external_call.class == ExternalCallKind::Done {
                done.insert((&external_call.token, &external_call.task));
            }
            if !external_call.may_be_lost
                && !states.contains(&(external_call.links, external_call.hash.clone()))
            {
                let what = format!(
                    "task {} of {} saw a state that is not in the log",
                    external_call.task, external_call.token
                );
                self.record_violation(Violation::Torn, what);
            }
        }
        for entry in self.dump.entries.iter().filter(|entry| entry.kind == "step") {
            for link in links_in_step_body(&entry.body) {
                let mut parts = link.splitn(3, '|').skip(1);
                let (Some(token), Some(task)) = (parts.next(), parts.next()) else { continue };
                if !task.ends_with(".s") && !done.contains(&(token, task)) {
                    self.record_violation(
                        Violation::Torn,
                        format!("task {task} of {token} is in the log and never ran"),
                    );
                }
            }
        }
    }

    fn entries_of<'b>(&'b self, run: &'b ThreadDumpRun) -> impl Iterator<Item = &'b ThreadDumpEntry> {
        self.dump.entries.iter().filter(move |entry| entry.run.as_deref() == Some(run.run.as_str()))
    }
}
