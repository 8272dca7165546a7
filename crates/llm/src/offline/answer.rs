//! Decides what the built-in model says. A plain function of the conversation: no clock, no chance, no state.
//!
//! Every line is a sentence of [`Say`], whose slots hold words of the person, a document or a tool as they stand.

use super::decide::{self, is_small_talk};
use super::facts::{self, Fact};
use super::lean;
use super::memory;
use super::place::{Place, places};
use super::quotes::{self, Cite, Found, Pick, Source, SourceKind};
use super::results;
use super::say::Say;
use super::summarize;
use super::talk;
use super::text::{Language, content_words, sentences};
use super::turn::{SAID_BY_USER, Turn};
use super::wish::{Wish, wishes};
use crate::message::{Message, Passage};

/// The most sentences that one answer quotes.
const MOST_QUOTES: usize = 8;

/// The answer to the newest message of the user, a line for each sentence.
pub(super) fn answer(turn: &Turn<'_>, messages: &[Message]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (statements, questions): (Vec<&str>, Vec<&str>) =
        sentences(&turn.question).into_iter().partition(|sentence| facts::stated(sentence).is_some());
    let noted: Vec<Fact<'_>> = statements.iter().filter_map(|sentence| facts::stated(sentence)).collect();
    // One a line: a joint between two sentences must not look like the inside of one.
    let question = questions.join("\n");
    if !noted.is_empty() && turn.results.is_empty() {
        let list: Vec<String> =
            noted.iter().map(|fact| format!("{} = {}", fact.subject, fact.value)).collect();
        lines.push(Say::Note.with(turn.tongue, &[&list.join(", ")]));
    }
    let noted = !lines.is_empty();
    let polite = talk::is_greeting(&question) || question.is_empty();
    if !(noted && polite) {
        lines.extend(reply(turn, messages, &question));
    }
    lines.join("\n")
}

fn reply(turn: &Turn<'_>, messages: &[Message], question: &str) -> Vec<String> {
    let say = |say: Say| say.with(turn.tongue, &[]);
    if !turn.results.is_empty() {
        return from_results(turn, question);
    }
    if talk::is_greeting(question) {
        return vec![say(Say::Hello), say(Say::Introduce), say(Say::Connect)];
    }
    if talk::is_thanks(question) || talk::is_filler(question) {
        return vec![say(Say::Welcome)];
    }
    if talk::is_bye(question) {
        return vec![say(Say::Bye)];
    }
    if talk::asks_what_it_is(question) {
        return vec![say(Say::Introduce), say(Say::Connect)];
    }
    if let Some(fact) = memory::kept(question) {
        return vec![Say::NoteSaid.with(turn.tongue, &[fact])];
    }
    let asked = sentences(question).into_iter().find_map(facts::asked);
    if let Some(lines) = asked.as_ref().and_then(|asked| recalled(turn, asked)) {
        return lines;
    }
    if decide::recalls(question)
        && let Some(line) = said(turn, question)
    {
        return vec![line];
    }
    if talk::wants_a_summary(question)
        && let Some(lines) = summed_up(turn, messages, question)
    {
        return lines;
    }
    let sources = decide::sources(turn);
    let mut found = quotes::answers(question, &sources);
    let mut noted = noted(turn, &mut found);
    if !found.picks.is_empty() || !noted.is_empty() {
        let mut lines = quoted(turn, &found);
        lines.append(&mut noted);
        return lines;
    }
    if let Some(lines) = not_there(turn, question, &found) {
        return lines;
    }
    if let Some(asked) = asked.filter(|asked| !asked.subject.is_empty() && turn.passages.is_empty()) {
        return vec![Say::NotTold.with(turn.tongue, &[&asked.subject])];
    }
    if let Some(lines) = without_material(turn, question) {
        return lines;
    }
    if turn.passages.is_empty() && talk::wants_a_summary(question) {
        return vec![say(Say::NotFound)];
    }
    if turn.passages.is_empty() && turn.attached.is_empty() && !turn.looked {
        return vec![say(Say::Introduce), say(Say::Connect)];
    }
    vec![not_found(turn, &turn.passages)]
}

/// What can be said when no passage answers: an open slot, a wish that needs a writer, something said before.
fn without_material(turn: &Turn<'_>, question: &str) -> Option<Vec<String>> {
    let say = |say: Say| say.with(turn.tongue, &[]);
    let wishes = wishes(question);
    if wishes.contains(&Wish::WeatherWhere) {
        return Some(vec![say(Say::AskPlace)]);
    }
    if wishes.contains(&Wish::ComputeWhat) {
        return Some(vec![say(Say::AskFormula)]);
    }
    if talk::wants_a_writer(question) {
        return Some(vec![say(Say::Cannot), say(Say::Connect)]);
    }
    if let Some(line) = said(turn, question) {
        return Some(vec![line]);
    }
    if lean::points_back(question)
        && !opens_another(turn, question)
        && let Some(lines) = previous(turn)
    {
        return Some(lines);
    }
    let statements: Vec<&str> =
        sentences(question).into_iter().filter(|s| facts::is_statement(s)).take(3).collect();
    let plain = !talk::asks(question) && !statements.is_empty() && !is_small_talk(question);
    plain.then(|| statements.iter().map(|sentence| Say::NoteSaid.with(turn.tongue, &[sentence])).collect())
}

/// Whether this conversation holds what is asked about the person.
pub(super) fn is_known(turn: &Turn<'_>, asked: &facts::Asked) -> bool {
    recalled(turn, asked).is_some() || said(turn, &turn.question).is_some()
}

/// What the person said of themselves, in this conversation or before a summary.
fn recalled(turn: &Turn<'_>, asked: &facts::Asked) -> Option<Vec<String>> {
    let question = std::iter::once(turn.question.as_str());
    let said = question.chain(turn.said.iter().rev().map(String::as_str));
    // The newest statement wins: people correct themselves.
    for text in said {
        let mut known = sentences(text).into_iter().filter_map(facts::stated);
        if let Some(fact) = known.rfind(|fact| asked.is_about(fact)) {
            return Some(vec![Say::Recall.with(turn.tongue, &[&fact.value, fact.sentence])]);
        }
    }
    let lines = turn.summary.iter().rev();
    for line in lines {
        let said = SAID_BY_USER.iter().find_map(|mark| line.strip_prefix(mark));
        let fact = said.and_then(facts::stated).filter(|fact| asked.is_about(fact));
        if let Some(fact) = fact {
            return Some(vec![Say::Recall.with(turn.tongue, &[&fact.value, fact.sentence])]);
        }
    }
    let subject = asked.subject.as_str();
    let told =
        turn.summary.iter().rev().find(|line| !subject.is_empty() && line.to_lowercase().contains(subject));
    told.map(|line| vec![Say::RecallSummary.with(turn.tongue, &[line])])
}

/// A sentence that the person said before, or a line of a summary, that a question asks for.
fn said(turn: &Turn<'_>, question: &str) -> Option<String> {
    let question = without_cues(question);
    let statements =
        turn.said.iter().rev().flat_map(|text| sentences(text)).filter(|sentence| !talk::asks(sentence));
    let sources: Vec<Source<'_>> = statements.map(material).collect();
    if let Some(pick) = quotes::best(&question, &sources) {
        return Some(Say::RecallSaid.with(turn.tongue, &[pick.sentence]));
    }
    let sources: Vec<Source<'_>> = turn.summary.iter().rev().map(|line| material(line)).collect();
    let pick = quotes::best(&question, &sources)?;
    let told = SAID_BY_USER.iter().find_map(|mark| pick.sentence.strip_prefix(mark));
    Some(match told {
        Some(told) => Say::RecallSaid.with(turn.tongue, &[told]),
        None => Say::RecallSummary.with(turn.tongue, &[pick.sentence]),
    })
}

fn material(text: &str) -> Source<'_> {
    Source { title: "", text, kind: SourceKind::Own, cite: Cite::Tool("") }
}

/// A question without the words that only say that something was said.
fn without_cues(question: &str) -> String {
    const CUES: [&str; 18] = [
        "아까",
        "방금",
        "전에",
        "말한",
        "말했던",
        "내가",
        "제가",
        "기억해",
        "기억하고",
        "기억나",
        "뭐라고",
        "했지",
        "했죠",
        "했더라",
        "said",
        "say",
        "remember",
        "earlier",
    ];
    let asks = |word: &str| {
        word.ends_with("라고") || word.ends_with("였지") || CUES.iter().any(|cue| word.starts_with(cue))
    };
    let kept =
        question.split_whitespace().filter(|word| !asks(word.trim_matches(|c: char| !c.is_alphanumeric())));
    kept.collect::<Vec<_>>().join(" ")
}

/// What a wish to sum up gets: the first sentences of the passages, the answer before, or the conversation.
fn summed_up(turn: &Turn<'_>, messages: &[Message], question: &str) -> Option<Vec<String>> {
    if !turn.passages.is_empty() || !turn.attached.is_empty() {
        let sources = decide::sources(turn);
        // Whoever gives a text along wants that one summed up.
        let wanted = sources.iter().filter(|source| turn.attached.is_empty() || source.cite == Cite::Given);
        let most = if turn.attached.is_empty() { 1 } else { MOST_QUOTES };
        let picks = wanted.flat_map(|source| {
            quotes::quotable(source.text).take(most).map(|sentence| Pick { sentence, source: *source })
        });
        let found = Found { picks: picks.collect(), missing: Vec::new() };
        return (!found.picks.is_empty()).then(|| quoted(turn, &found));
    }
    if lean::points_back(question) {
        return previous(turn);
    }
    let of_talk = talk::is_about_talk(question);
    if !of_talk && turn.has_previous() {
        return previous(turn);
    }
    let earlier = &messages[..messages.len().saturating_sub(1)];
    let digest = summarize::digest(earlier, MOST_QUOTES);
    if digest.is_empty() {
        let say = if of_talk { Say::DigestEmpty } else { Say::NotFound };
        return Some(vec![say.with(turn.tongue, &[])]);
    }
    let lines = digest.iter().map(|(say, text)| say.with(turn.tongue, &[text]));
    Some(std::iter::once(Say::Digest.with(turn.tongue, &[])).chain(lines).collect())
}

/// The answer before this one, word for word and whole, but for marks. One that repeats an answer is not nested.
fn previous(turn: &Turn<'_>) -> Option<Vec<String>> {
    let text = turn.answered.last()?;
    let heads = [Language::Korean, Language::English].map(|tongue| Say::Previous.template(tongue));
    let told = text.split(|char: char| char.is_control() && char != '\t').map(str::trim_end);
    let told = told.filter(|line| !line.is_empty() && !heads.contains(line));
    let lines: Vec<String> = told
        .map(|line| Say::PreviousLine.with(turn.tongue, &[line.strip_prefix("> ").unwrap_or(line)]))
        .collect();
    (!lines.is_empty()).then(|| std::iter::once(Say::Previous.with(turn.tongue, &[])).chain(lines).collect())
}

/// What tools gave back: quotes of what searching tools found, then the rest in the order of the calls.
fn from_results(turn: &Turn<'_>, question: &str) -> Vec<String> {
    let (searched, other): (Vec<_>, Vec<_>) =
        turn.results.iter().copied().partition(|result| !result.failed && results::is_search(&result.name));
    let mut lines: Vec<String> = other.iter().flat_map(|result| results::told(turn, result)).collect();
    let mut failed = other.iter().filter(|result| result.failed && !results::is_refused(result)).peekable();
    if failed.peek().is_some() {
        let computed = failed.all(|result| results::of_calculator(result).is_some());
        let advice = if computed { Say::AskFormula } else { Say::FailedAdvice };
        lines.push(advice.with(turn.tongue, &[]));
    }
    let sources: Vec<Source<'_>> = decide::sources(turn)
        .into_iter()
        .filter(|source| match source.cite {
            Cite::Number(_) | Cite::Given => true,
            // Numbered passages are the same words with a better name.
            Cite::Tool(name) => turn.passages.is_empty() && results::is_search(name),
        })
        .collect();
    let left = results::left_of(turn, question);
    let mut found = quotes::answers(question, &sources);
    if found.picks.is_empty() {
        found.picks = quotes::answers(&left, &sources).picks;
    }
    found.missing.retain(|part| !wishes(part).iter().any(|wish| results::tell(turn, wish)));
    let noted = noted(turn, &mut found);
    if !found.picks.is_empty() || !noted.is_empty() {
        lines.extend(quoted(turn, &found));
        lines.extend(noted);
    } else if let Some(told) = not_there(turn, question, &found).filter(|_| !searched.is_empty()) {
        lines.extend(told);
    } else if !searched.is_empty() || lines.is_empty() {
        lines.push(not_found(turn, &turn.passages));
    }
    lines
}

/// What has to be said about what was looked up. What it says is not there is no longer missing.
fn noted(turn: &Turn<'_>, found: &mut Found<'_>) -> Vec<String> {
    found.missing.retain(|part| !turn.notes.iter().any(|note| note.contains(part.as_str())));
    turn.notes.iter().take(MOST_QUOTES).map(|note| Say::Noted.with(turn.tongue, &[note])).collect()
}

/// What is said where documents were looked up and the places that were named are not among them.
fn not_there(turn: &Turn<'_>, question: &str, found: &Found<'_>) -> Option<Vec<String>> {
    let looked = turn.looked || !turn.passages.is_empty() || !turn.results.is_empty();
    let named = places(question).0;
    let missing = named.iter().map(Place::to_string).filter(|place| found.missing.contains(place));
    let lines: Vec<String> = missing.map(|place| Say::NotFoundPlace.with(turn.tongue, &[&place])).collect();
    (looked && !lines.is_empty()).then_some(lines)
}

/// The quotes, the person's own documents and standard contracts told apart where both are there.
fn quoted(turn: &Turn<'_>, found: &Found<'_>) -> Vec<String> {
    let kinds = [SourceKind::Own, SourceKind::Standard];
    let both = kinds.iter().all(|kind| found.picks.iter().any(|pick| pick.source.kind == *kind));
    let mut lines: Vec<String> = Vec::new();
    for kind in kinds {
        let lead = match (kind, both) {
            (SourceKind::Own, true) => Say::QuoteContract,
            (SourceKind::Standard, _) => Say::QuoteStandard,
            (SourceKind::Own, false) => Say::Quote,
        };
        let picks = found.picks.iter().filter(|pick| pick.source.kind == kind).take(MOST_QUOTES);
        let mut last: Option<Cite<'_>> = None;
        for pick in picks {
            lines.push(match pick.source.cite {
                Cite::Number(number) => {
                    let say = if last == Some(pick.source.cite) { Say::QuoteMore } else { lead };
                    say.with(turn.tongue, &[pick.sentence, &number.to_string()])
                }
                Cite::Tool(name) => Say::QuoteTool.with(turn.tongue, &[name, pick.sentence]),
                Cite::Given => Say::QuoteGiven.with(turn.tongue, &[pick.sentence]),
            });
            last = Some(pick.source.cite);
        }
    }
    let missing = found.missing.iter().filter(|part| !places(part).0.is_empty() || part.chars().count() > 3);
    lines.extend(missing.map(|part| Say::NotFoundPart.with(turn.tongue, &[part])));
    lines
}

/// Whether a question such as "그럼 위약금은?" goes on to something that was not spoken of, and documents were looked
/// up for it: the answer before is no answer to that.
fn opens_another(turn: &Turn<'_>, question: &str) -> bool {
    let lower = question.trim().to_lowercase();
    let leads = ["그럼", "그러면", "그렇다면", "then ", "and ", "so ", "also ", "what about", "how about"];
    let again = ["다시", "보여", "자세히", "정리", "요약", "again", "repeat", "more", "show"];
    if turn.passages.is_empty()
        || !leads.iter().any(|lead| lower.starts_with(lead))
        || again.iter().any(|cue| lower.contains(cue))
    {
        return false;
    }
    let before: String = turn.said.last().into_iter().chain(turn.answered.last()).cloned().collect();
    let before = before.to_lowercase();
    let asks = [
        "그럼",
        "그러면",
        "그렇다면",
        "언제",
        "왜",
        "어떻",
        "어떤",
        "누가",
        "누구",
        "어디",
        "무엇",
        "무슨",
        "뭐",
        "얼마",
        "몇",
        "어느",
        "how",
        "why",
        "when",
        "where",
        "who",
        "what",
        "then",
        "about",
    ];
    let names = |word: &String| !asks.iter().any(|ask| word.starts_with(ask)) && word.chars().count() > 1;
    content_words(question).iter().filter(|word| names(word)).any(|word| !before.contains(word.as_str()))
}

/// A heading as a person reads it: an article of an English document is not 제5조 to whoever asks in English.
fn heading(title: &str, tongue: Language) -> String {
    let article = || {
        let (before, rest) = title.split_once('제')?;
        let (number, rest) = rest.split_once("조(")?;
        let fits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let english = rest.starts_with(|char: char| char.is_ascii_alphabetic());
        (fits && english).then(|| format!("{before}Article {number} ({rest}"))
    };
    let told = if tongue == Language::English { article() } else { None };
    told.unwrap_or_else(|| title.to_owned())
}

fn not_found(turn: &Turn<'_>, passages: &[&Passage]) -> String {
    let mut titles: Vec<String> = Vec::new();
    for passage in passages {
        let clean: String = passage.title.chars().filter(|char| !char.is_control()).take(120).collect();
        let title = format!("{} [{}]", heading(&clean, turn.tongue), passage.number);
        if !clean.is_empty() && titles.len() < 3 && !titles.contains(&title) {
            titles.push(title);
        }
    }
    if titles.is_empty() {
        return Say::NotFound.with(turn.tongue, &[]);
    }
    Say::NotFoundNear.with(turn.tongue, &[&titles.join(", ")])
}
