//! Decides what the built-in model says. A plain function of the conversation: no clock, no chance, no state.
//!
//! Every line is a sentence of [`FixedPhrase`], whose slots hold words of the person, a document or a tool as they stand.

use doran_agents::Language;
use doran_agents::agents::contract::ComparisonRemark;
use doran_agents::tools::is_refused_by_person;
use doran_llm::Message;
use doran_retrieval::{asks_or_requests, is_courtesy};

use super::comparison_lines::comparison_lines;
use super::cues::Cue;
use super::decisions::{self, is_small_talk};
use super::facts::{self, StatedFact};
use super::intent::{QuestionIntent, intents_of};
use super::memory;
use super::phrasing::FixedPhrase;
use super::places::named_places;
use super::quotes::{self, PickedQuote, QuotesFound};
use super::ranking::question_terms;
use super::results;
use super::summarize;
use super::text::{content_words, sentences};
use super::turn::OfflineTurn;
use super::units::{QuotableSource, QuotableSourceKind, SourceCitation};

/// The most sentences of a summary.
const MAX_QUOTES: usize = 8;

/// The most sentences that are quoted of one side. A range of articles has many.
const MAX_QUOTE_LINES: usize = 60;

/// The answer to the newest message of the user, a line for each sentence.
pub(super) fn answer(turn: &OfflineTurn<'_>, messages: &[Message]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (statements, questions): (Vec<&str>, Vec<&str>) =
        sentences(&turn.question).into_iter().partition(|sentence| facts::stated_fact(sentence).is_some());
    let noted: Vec<StatedFact<'_>> =
        statements.iter().filter_map(|sentence| facts::stated_fact(sentence)).collect();
    // One a line: a joint between two sentences must not look like the inside of one.
    let mut question = questions.join("\n");
    // "제 프린터 오류는 E3입니다. 어떻게 하나요?" asks about what it states.
    if turn.asks && question_terms(&question).is_empty() {
        question.clone_from(&turn.question);
    }
    if !noted.is_empty() && turn.results.is_empty() {
        let list: Vec<String> =
            noted.iter().map(|fact| format!("{} = {}", fact.subject, fact.value)).collect();
        lines.push(FixedPhrase::Note.filled(turn.language, &[&list.join(", ")]));
    }
    let noted = !lines.is_empty();
    let polite = Cue::Greeting.is_in(&question) || question.is_empty();
    if !(noted && polite) {
        lines.extend(answer_question(turn, messages, &question));
    }
    lines.join("\n")
}

fn answer_question(turn: &OfflineTurn<'_>, messages: &[Message], question: &str) -> Vec<String> {
    let say = |say: FixedPhrase| say.filled(turn.language, &[]);
    if !turn.results.is_empty() {
        return answer_from_results(turn, question);
    }
    if Cue::Greeting.is_in(question) {
        return vec![say(FixedPhrase::Hello), say(FixedPhrase::Introduce), say(FixedPhrase::Connect)];
    }
    if Cue::Thanks.is_in(question) || Cue::Filler.is_in(question) {
        return vec![say(FixedPhrase::Welcome)];
    }
    if is_courtesy(question) {
        let thanks = sentences(question).into_iter().any(|sentence| Cue::Thanks.is_in(sentence));
        return vec![say(if thanks { FixedPhrase::Welcome } else { FixedPhrase::Hello })];
    }
    if Cue::Bye.is_in(question) {
        return vec![say(FixedPhrase::Bye)];
    }
    if Cue::AsksWhatItIs.is_in(question) {
        return vec![say(FixedPhrase::Introduce), say(FixedPhrase::Connect)];
    }
    if let Some(fact) = memory::fact_to_remember(question) {
        return vec![FixedPhrase::NoteSaid.filled(turn.language, &[fact])];
    }
    let asked = sentences(question).into_iter().find_map(facts::personal_fact_question);
    if let Some(lines) = asked.as_ref().and_then(|asked| recall_fact(turn, asked)) {
        return lines;
    }
    if decisions::asks_for_what_was_said(turn)
        && let Some(line) = recall_statement(turn, question)
    {
        return vec![line];
    }
    if Cue::WantsSummary.is_in(question)
        && let Some(lines) = answer_summary_request(turn, messages, question)
    {
        return lines;
    }
    let sources = decisions::sources(turn);
    if Cue::GivesOrders.is_in(question) {
        return vec![say(FixedPhrase::Cannot), say(FixedPhrase::Connect)];
    }
    let mut found = quotes::find_quotes(turn.asked(question), &sources);
    let mut noted = note_lines(turn, &mut found);
    if !found.picks.is_empty() || !noted.is_empty() {
        let mut lines = quote_lines(turn, &found);
        lines.append(&mut noted);
        return lines;
    }
    if let Some(lines) = missing_place_lines(turn, question, &found) {
        return lines;
    }
    if let Some(asked) = asked.filter(|asked| !asked.subject.is_empty()) {
        return vec![FixedPhrase::NotTold.filled(turn.language, &[&asked.subject])];
    }
    if let Some(lines) = without_material(turn, question) {
        return lines;
    }
    if turn.passages.is_empty() && Cue::WantsSummary.is_in(question) {
        return vec![say(FixedPhrase::NotFound)];
    }
    if turn.passages.is_empty() && turn.attached.is_empty() && !turn.has_searched_documents {
        return vec![say(FixedPhrase::Introduce), say(FixedPhrase::Connect)];
    }
    vec![not_found(turn)]
}

/// What can be said when no passage answers: an open slot, a wish that needs a writer, something said before.
fn without_material(turn: &OfflineTurn<'_>, question: &str) -> Option<Vec<String>> {
    let say = |say: FixedPhrase| say.filled(turn.language, &[]);
    let wishes = intents_of(question);
    if wishes.contains(&QuestionIntent::WeatherWhere) && turn.passages.is_empty() {
        return Some(vec![say(FixedPhrase::AskPlace)]);
    }
    if wishes.contains(&QuestionIntent::ComputeWhat) {
        return Some(vec![say(FixedPhrase::AskFormula)]);
    }
    if Cue::WantsWriter.is_in(question) {
        return Some(vec![say(FixedPhrase::Cannot), say(FixedPhrase::Connect)]);
    }
    if let Some(line) = recall_statement(turn, question) {
        return Some(vec![line]);
    }
    // What goes on to something else is not answered with the answer before.
    let asks_again = Cue::ShowsAgain.is_in(question) || turn.passages.is_empty();
    if Cue::PointsBack.is_in(question)
        && asks_again
        && !opens_new_subject(turn, question)
        && let Some(lines) = repeat_previous_answer(turn)
    {
        return Some(lines);
    }
    let statements: Vec<&str> =
        sentences(question).into_iter().filter(|s| facts::is_statement(s)).take(3).collect();
    let plain = !turn.asks && !statements.is_empty() && !is_small_talk(question);
    plain.then(|| {
        statements.iter().map(|sentence| FixedPhrase::NoteSaid.filled(turn.language, &[sentence])).collect()
    })
}

/// Whether this conversation holds what is asked about the person.
pub(super) fn is_known(turn: &OfflineTurn<'_>, asked: &facts::PersonalFactQuestion) -> bool {
    recall_fact(turn, asked).is_some() || recall_statement(turn, &turn.question).is_some()
}

/// What the person said of themselves, in this conversation or before a summary.
fn recall_fact(turn: &OfflineTurn<'_>, asked: &facts::PersonalFactQuestion) -> Option<Vec<String>> {
    let question = std::iter::once(turn.question.as_str());
    let said = question.chain(turn.said.iter().rev().map(String::as_str));
    // The newest statement wins: people correct themselves.
    for text in said {
        let mut known = sentences(text).into_iter().filter_map(facts::stated_fact);
        if let Some(fact) = known.rfind(|fact| asked.is_about(fact)) {
            return Some(vec![FixedPhrase::Recall.filled(turn.language, &[&fact.value, fact.sentence])]);
        }
    }
    for line in remembered_lines(turn) {
        let said = summarize::said_by_user(line);
        let fact = said.and_then(facts::stated_fact).filter(|fact| asked.is_about(fact));
        if let Some(fact) = fact {
            return Some(vec![FixedPhrase::Recall.filled(turn.language, &[&fact.value, fact.sentence])]);
        }
    }
    let subject = asked.subject.as_str();
    let summary =
        remembered_lines(turn).find(|line| !subject.is_empty() && line.to_lowercase().contains(subject));
    summary.map(|line| vec![FixedPhrase::RecallSummary.filled(turn.language, &[line])])
}

/// A sentence that the person said before, or a line of a summary, that a question asks for.
fn recall_statement(turn: &OfflineTurn<'_>, question: &str) -> Option<String> {
    let question = without_cues(question);
    let statements = turn
        .said
        .iter()
        .rev()
        .flat_map(|text| sentences(text))
        .filter(|sentence| !asks_or_requests(sentence));
    let sources: Vec<QuotableSource<'_>> = statements.map(statement_source).collect();
    if let Some(said) = quotes::most_shared(&question, &sources) {
        return Some(FixedPhrase::RecallSaid.filled(turn.language, &[said]));
    }
    let sources: Vec<QuotableSource<'_>> =
        remembered_lines(turn).map(|line| statement_source(line)).collect();
    let line = quotes::most_shared(&question, &sources)?;
    Some(match summarize::said_by_user(line) {
        Some(said) => FixedPhrase::RecallSaid.filled(turn.language, &[said]),
        None => FixedPhrase::RecallSummary.filled(turn.language, &[line]),
    })
}

/// The lines of older summaries, newest first, but for what was answered: the program does not quote itself.
fn remembered_lines<'t>(turn: &'t OfflineTurn<'_>) -> impl Iterator<Item = &'t String> {
    turn.summary.iter().rev().filter(|line| summarize::said_by_model(line).is_none())
}

fn statement_source(text: &str) -> QuotableSource<'_> {
    QuotableSource { title: "", text, kind: QuotableSourceKind::Document, cite: SourceCitation::Tool("") }
}

/// A question without the words that only say that something was said.
fn without_cues(question: &str) -> String {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let kept = question.split_whitespace().filter(|word| !Cue::SaysThatItWasSaid.is_in(&bare(word)));
    kept.collect::<Vec<_>>().join(" ")
}

/// What a wish to sum up gets: the first sentences of the passages, the answer before, or the conversation.
fn answer_summary_request(
    turn: &OfflineTurn<'_>,
    messages: &[Message],
    question: &str,
) -> Option<Vec<String>> {
    let of_talk = Cue::AboutConversation.is_in(question);
    if !turn.attached.is_empty() || !turn.passages.is_empty() && !of_talk {
        let sources = decisions::sources(turn);
        // Whoever gives a text along wants that one summed up, else what is named.
        let subject = decisions::subject_of_summary(question);
        let named = |source: &QuotableSource<'_>| {
            subject.iter().filter(|term| term.is_named_in(source.title)).count()
        };
        let most_named = sources.iter().map(named).max().unwrap_or(0);
        if turn.attached.is_empty() && most_named == 0 && !subject.is_empty() {
            return None;
        }
        let wanted: Vec<_> = sources
            .iter()
            .filter(|source| match turn.attached.is_empty() {
                true => named(source) == most_named,
                false => source.cite == SourceCitation::Given,
            })
            .collect();
        let most = (MAX_QUOTES / wanted.len().max(1)).max(1);
        let picks = wanted.into_iter().flat_map(|source| {
            quotes::quotable(source).take(most).map(|words| PickedQuote {
                words,
                source: *source,
                is_sure: true,
            })
        });
        let found = QuotesFound { picks: picks.collect(), ..QuotesFound::default() };
        return (!found.picks.is_empty()).then(|| quote_lines(turn, &found));
    }
    if Cue::PointsBack.is_in(question) {
        return repeat_previous_answer(turn);
    }
    if !of_talk && turn.has_previous() {
        return repeat_previous_answer(turn);
    }
    let earlier = &messages[..messages.len().saturating_sub(1)];
    let digest = summarize::digest(earlier, MAX_QUOTES);
    if digest.is_empty() {
        let say = if of_talk { FixedPhrase::DigestEmpty } else { FixedPhrase::NotFound };
        return Some(vec![say.filled(turn.language, &[])]);
    }
    let lines = digest.iter().map(|(say, text)| say.filled(turn.language, &[text]));
    Some(std::iter::once(FixedPhrase::Digest.filled(turn.language, &[])).chain(lines).collect())
}

/// The answer before this one, word for word and whole, but for marks. One that repeats an answer is not nested.
fn repeat_previous_answer(turn: &OfflineTurn<'_>) -> Option<Vec<String>> {
    let text = turn.answered.last()?;
    let heads = [Language::Korean, Language::English].map(|tongue| FixedPhrase::Previous.template(tongue));
    let before = text.split(|char: char| char.is_control() && char != '\t').map(str::trim_end);
    let lines: Vec<String> = before
        .filter(|line| !line.is_empty() && !heads.contains(line))
        .map(|line| {
            FixedPhrase::PreviousLine.filled(turn.language, &[line.strip_prefix("> ").unwrap_or(line)])
        })
        .collect();
    (!lines.is_empty())
        .then(|| std::iter::once(FixedPhrase::Previous.filled(turn.language, &[])).chain(lines).collect())
}

/// What tools gave back: quotes of what searching tools found, then the rest in the order of the calls.
fn answer_from_results(turn: &OfflineTurn<'_>, question: &str) -> Vec<String> {
    let (searched, other): (Vec<_>, Vec<_>) =
        turn.results.iter().copied().partition(|result| !result.failed && results::is_search(&result.name));
    // That nothing is remembered matters only where documents do not answer either, and so does what else is.
    let (forgotten, other): (Vec<_>, Vec<_>) = other
        .into_iter()
        .partition(|result| memory::is_recall_of_nothing(result) || memory::is_recall_of_all(turn, result));
    let mut lines: Vec<String> =
        other.iter().flat_map(|result| results::result_lines(turn, result)).collect();
    let mut failed = other.iter().filter(|result| result.failed && !is_refused_by_person(result)).peekable();
    if failed.peek().is_some() {
        let computed = failed.all(|result| results::calculator_failure(result).is_some());
        let advice = if computed { FixedPhrase::AskFormula } else { FixedPhrase::FailedAdvice };
        lines.push(advice.filled(turn.language, &[]));
    }
    let sources: Vec<QuotableSource<'_>> = decisions::sources(turn)
        .into_iter()
        .filter(|source| match source.cite {
            SourceCitation::Number(_) | SourceCitation::Given => true,
            // Numbered passages are the same words with a better name.
            SourceCitation::Tool(name) => turn.passages.is_empty() && results::is_search(name),
        })
        .collect();
    let left = results::question_without_formula(turn, question);
    let mut found = quotes::find_quotes(turn.asked(question), &sources);
    if left != question {
        let plain = quotes::find_quotes(turn.asked(&left), &sources).picks;
        found.picks = if plain.is_empty() { found.picks } else { plain };
    }
    found.missing.retain(|part| !intents_of(part).iter().any(|wish| results::is_intent_answered(turn, wish)));
    let noted = note_lines(turn, &mut found);
    if let Some(share) = memory::share_of_fact(turn) {
        // The fact answers. What is only near to the question and shares less of its words does not.
        found.picks.retain(|pick| pick.is_sure || quotes::shared_words(question, &pick.words) >= share);
        if found.picks.is_empty() && noted.is_empty() {
            return lines;
        }
    }
    if !found.picks.is_empty() || !noted.is_empty() {
        lines.extend(quote_lines(turn, &found));
        lines.extend(noted);
        return lines;
    }
    let all = forgotten.iter().filter(|result| !memory::is_recall_of_nothing(result));
    let facts: Vec<String> = all.flat_map(|result| results::result_lines(turn, result)).collect();
    let nothing =
        || forgotten.iter().take(1).flat_map(|result| results::result_lines(turn, result)).collect();
    lines.extend(if facts.is_empty() { nothing() } else { facts });
    if let Some(missing) = missing_place_lines(turn, question, &found).filter(|_| !searched.is_empty()) {
        lines.extend(missing);
    } else if !searched.is_empty() || lines.is_empty() {
        lines.push(not_found(turn));
    }
    lines
}

/// What has to be said about what was looked up. What it says is not there is no longer missing.
fn note_lines(turn: &OfflineTurn<'_>, found: &mut QuotesFound<'_>) -> Vec<String> {
    found.missing.retain(|part| !turn.notes.iter().any(|note| note.contains(part.as_str())));
    turn.notes.iter().take(MAX_QUOTES).map(|note| FixedPhrase::Noted.filled(turn.language, &[note])).collect()
}

/// What is said where documents were looked up and the places that were named are not among them.
fn missing_place_lines(
    turn: &OfflineTurn<'_>,
    question: &str,
    found: &QuotesFound<'_>,
) -> Option<Vec<String>> {
    let looked = turn.has_searched_documents || !turn.passages.is_empty() || !turn.results.is_empty();
    let named = named_places(question).0;
    let missing = named.iter().filter(|place| found.missing.contains(&place.to_string()));
    let lines: Vec<String> = missing
        .map(|place| FixedPhrase::NotFoundPlace.filled(turn.language, &[&place.label(turn.language)]))
        .collect();
    (looked && !lines.is_empty()).then_some(lines)
}

/// The quotes, documents, the person's contracts and standard contracts apart.
fn quote_lines(turn: &OfflineTurn<'_>, found: &QuotesFound<'_>) -> Vec<String> {
    let (compared, picks): (Vec<_>, Vec<_>) =
        found.picks.iter().partition(|pick| ComparisonRemark::of_title(pick.source.title).is_some());
    let has_standard = picks.iter().any(|pick| pick.source.is_standard());
    let mut lines = comparison_lines(turn, &compared, found.extent);
    for kind in [QuotableSourceKind::Document, QuotableSourceKind::Contract, QuotableSourceKind::Standard] {
        let lead = match kind {
            QuotableSourceKind::Contract if has_standard => FixedPhrase::QuoteContract,
            QuotableSourceKind::Document | QuotableSourceKind::Contract => FixedPhrase::Quote,
            QuotableSourceKind::Standard => FixedPhrase::QuoteStandard,
        };
        let picks: Vec<_> = picks.iter().filter(|pick| pick.source.kind == kind).collect();
        // What a quote is worth is said once for all that follow and are worth the same.
        let mut last_sure = None;
        for pick in picks.iter().take(MAX_QUOTE_LINES) {
            lines.push(match pick.source.cite {
                SourceCitation::Number(number) => {
                    let say = match (last_sure == Some(pick.is_sure), pick.is_sure) {
                        (true, _) => FixedPhrase::QuoteMore,
                        (false, true) => lead,
                        (false, false) => FixedPhrase::Nearest,
                    };
                    last_sure = Some(pick.is_sure);
                    say.filled(turn.language, &[&pick.words, &number.to_string()])
                }
                SourceCitation::Tool(name) => {
                    FixedPhrase::QuoteTool.filled(turn.language, &[name, &pick.words])
                }
                SourceCitation::Given => FixedPhrase::QuoteGiven.filled(turn.language, &[&pick.words]),
            });
        }
        if picks.len() > MAX_QUOTE_LINES {
            lines.push(FixedPhrase::ResultCut.filled(turn.language, &[]));
        }
    }
    let missing =
        found.missing.iter().filter(|part| !named_places(part).0.is_empty() || part.chars().count() > 3);
    lines.extend(missing.map(|part| FixedPhrase::NotFoundPart.filled(turn.language, &[part])));
    lines
}

/// Whether a question such as "그럼 위약금은?" goes on to something that was not spoken of, and documents were looked
/// up for it: the answer before is no answer to that.
fn opens_new_subject(turn: &OfflineTurn<'_>, question: &str) -> bool {
    if turn.passages.is_empty() || !Cue::OpensFollowUp.is_in(question) || Cue::ShowsAgain.is_in(question) {
        return false;
    }
    let before: String = turn.said.last().into_iter().chain(turn.answered.last()).cloned().collect();
    let before = before.to_lowercase();
    let names = |word: &String| !Cue::AsksAnything.is_in(word) && word.chars().count() > 1;
    content_words(question).iter().filter(|word| names(word)).any(|word| !before.contains(word.as_str()))
}

fn not_found(turn: &OfflineTurn<'_>) -> String {
    FixedPhrase::NotFound.filled(turn.language, &[])
}
