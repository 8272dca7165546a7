//! The small decisions of the agents, by rules: which way a question goes, whether it is in scope, whether it leans on
//! the turn before, what type it is, whether enough was collected, how else it could be worded.

use doran_agents::Language;
use doran_agents::agents::assistant::AssistantRoute;
use doran_agents::agents::docqa::QueryType;
use doran_agents::tools::names;
use doran_retrieval::is_courtesy;

use super::answer;
use super::cues::Cue;
use super::facts;
use super::intent::{self, QuestionIntent};
use super::memory;
use super::quotes;
use super::ranking::{QuestionTerm, question_terms};
use super::schema::{RuleChoice, RuleDecision};
use super::text::{content_words, sentences, words};
use super::turn::OfflineTurn;
use super::units::{QuotableSource, QuotableSourceKind, SourceCitation};

/// `rag` for what documents may answer, `agent` for the rest.
pub(super) fn route(turn: &OfflineTurn<'_>) -> RuleDecision {
    let question = turn.question.as_str();
    let (choice, reason) = if is_small_talk(question) {
        (AssistantRoute::Agent, ["인사나 대화입니다", "small talk"])
    } else if asks_for_what_was_said(turn) {
        (
            AssistantRoute::Agent,
            ["이 대화에서 나온 말을 묻습니다", "asks for something said in this conversation"],
        )
    } else if names_documents(question) {
        (AssistantRoute::Rag, ["문서에서 찾을 말이 있습니다", "names something to be found in documents"])
    } else if intent::intents_of(question).iter().any(is_for_a_tool) {
        (AssistantRoute::Agent, ["도구로 답할 요청입니다", "asks for what a tool does"])
    } else if Cue::WantsWriter.is_in(question)
        || Cue::WantsSummary.is_in(question) && subject_of_summary(question).is_empty()
    {
        (AssistantRoute::Agent, ["글을 쓰거나 정리하는 요청입니다", "asks to write or to sum up"])
    } else if facts::is_statement(question) && !turn.asks {
        (AssistantRoute::Agent, ["찾을 것을 묻지 않았습니다", "asks for nothing to be found"])
    } else {
        (AssistantRoute::Rag, ["질문이므로 문서에서 찾아봅니다", "a question, so documents are searched"])
    };
    RuleDecision {
        choice: Some(RuleChoice::Route(choice)),
        reason: in_language(turn, reason),
        ..RuleDecision::default()
    }
}

/// Whether a question is about contracts, and whether it leans on the turn before.
pub(super) fn scope(turn: &OfflineTurn<'_>) -> RuleDecision {
    let question = turn.question.as_str();
    let leans = Cue::PointsBack.is_in(question);
    let wishes = intent::intents_of(question);
    let weather =
        |wish: &QuestionIntent| matches!(wish, QuestionIntent::Weather(_) | QuestionIntent::WeatherWhere);
    let off_topic = wishes.iter().any(weather) || Cue::OffTopic.is_in(question);
    let outside = off_topic || wishes.iter().any(is_of_the_world) || Cue::WantsWriter.is_in(question);
    let (in_scope, reason) = if is_about_contracts(question) {
        (true, ["계약에 관한 말이 있습니다", "speaks of contracts"])
    } else if leans && !off_topic {
        (true, ["앞의 대화를 가리킵니다", "points back to the conversation"])
    } else if is_small_talk(question) {
        (true, ["인사나 대화입니다", "small talk"])
    } else if outside {
        (false, ["계약과 상관없는 요청입니다", "has nothing to do with contracts"])
    } else {
        (true, ["규칙으로는 알 수 없어 찾아봅니다", "the rules cannot tell, so it is looked for"])
    };
    RuleDecision {
        in_scope: Some(in_scope),
        previous: Some(leans),
        reason: in_language(turn, reason),
        ..RuleDecision::default()
    }
}

/// Whether a question leans on the turn before it.
pub(super) fn previous(turn: &OfflineTurn<'_>) -> RuleDecision {
    let question = turn.question.as_str();
    let (leans, reason) = if !turn.has_previous() {
        (false, ["앞의 대화가 없습니다", "there is no turn before"])
    } else if Cue::PointsBack.is_in(question) {
        (true, ["앞의 대화를 가리키는 말이 있습니다", "a word points back"])
    } else if is_elliptic(question) && !is_small_talk(question) {
        (true, ["혼자서는 뜻이 서지 않는 짧은 질문입니다", "too short to stand alone"])
    } else {
        (false, ["혼자서 뜻이 서는 질문입니다", "stands alone"])
    };
    RuleDecision { previous: Some(leans), reason: in_language(turn, reason), ..RuleDecision::default() }
}

/// `question`, `summary` or `chitchat`.
pub(super) fn classify(turn: &OfflineTurn<'_>) -> RuleDecision {
    let question = turn.question.as_str();
    let is_for_memory = |wish: &QuestionIntent| {
        matches!(wish, QuestionIntent::Remember(_) | QuestionIntent::Recall(_) | QuestionIntent::Forget(_))
    };
    let (choice, reason) = if is_small_talk(question) {
        (QueryType::Chitchat, ["인사나 대화입니다", "small talk"])
    } else if intent::intents_of(question).iter().any(is_for_memory) {
        (QueryType::Chitchat, ["기억해 둘 것이나 잊을 것입니다", "something to remember or to forget"])
    } else if Cue::WantsSummary.is_in(question) && subject_of_summary(question).is_empty() {
        (QueryType::Summary, ["요약을 바랍니다", "asks to sum up"])
    } else if asks_for_what_was_said(turn) {
        (
            QueryType::Chitchat,
            ["이 대화에서 나온 말을 묻습니다", "asks for something said in this conversation"],
        )
    } else {
        (QueryType::Question, ["질문입니다", "a question"])
    };
    RuleDecision {
        choice: Some(RuleChoice::Query(choice)),
        reason: in_language(turn, reason),
        question: question.into(),
        ..RuleDecision::default()
    }
}

/// Whether the results and passages hold a sentence for everything that was asked.
pub(super) fn sufficiency(turn: &OfflineTurn<'_>) -> RuleDecision {
    let sources = sources(turn);
    let question = turn.question.as_str();
    let mut found = quotes::find_quotes(turn.asked(question), &sources);
    found.missing.retain(|part| !turn.notes.iter().any(|note| note.contains(part.as_str())));
    // What is known not to be there is not looked for again.
    let settled = !turn.notes.is_empty() && found.missing.is_empty();
    let standard = Cue::AboutStandard.is_in(question) && !sources.iter().any(QuotableSource::is_standard);
    // A fact that is found is not yet forgotten.
    let is_memory_change = intent::intents_of(question)
        .iter()
        .any(|wish| matches!(wish, QuestionIntent::Remember(_) | QuestionIntent::Forget(_)));
    let missing = if is_done(turn) {
        None
    } else if is_memory_change {
        Some(one_line(question))
    } else if standard {
        Some(match turn.language {
            Language::Korean => "표준계약서".to_owned(),
            Language::English => "standard contract".to_owned(),
        })
    } else if found.picks.is_empty() && settled {
        None
    } else if found.picks.is_empty() {
        Some(one_line(question))
    } else {
        (!found.missing.is_empty()).then(|| found.missing.join(", "))
    };
    let reason = match &missing {
        None => ["물은 것마다 답이 될 문장이 있습니다", "there is a sentence for everything that was asked"],
        Some(_) if sources.is_empty() => ["모은 것이 아직 없습니다", "nothing was collected yet"],
        Some(_) => ["답이 될 문장이 없는 부분이 있습니다", "a part of the question has no sentence yet"],
    };
    RuleDecision {
        sufficient: Some(missing.is_none()),
        missing,
        reason: in_language(turn, reason),
        ..RuleDecision::default()
    }
}

/// Whether what was to be kept, recalled or forgotten is: there is nothing to look up for that.
fn is_done(turn: &OfflineTurn<'_>) -> bool {
    let ran = |name: &str| turn.results.iter().any(|result| result.name.ends_with(name));
    // What is not found, or not the only one, is for the person to name.
    let open = || {
        let mut recalled = turn.results.iter().filter(|result| result.name.ends_with(names::RECALL));
        recalled.any(|found| memory::only_id(&found.text).is_none())
    };
    let about_person =
        || sentences(&turn.question).into_iter().any(|one| facts::personal_fact_question(one).is_some());
    if ran(names::RECALL) && about_person() {
        return true;
    }
    intent::intents_of(&turn.question).iter().any(|wish| match wish {
        QuestionIntent::Remember(_) => ran(names::REMEMBER),
        QuestionIntent::Recall(_) => ran(names::RECALL),
        QuestionIntent::Forget(_) => ran(names::FORGET) || open(),
        _ => false,
    })
}

/// Other wordings to search with: the question, its content words, the same without the conversation around it.
pub(super) fn rewrite(turn: &OfflineTurn<'_>) -> RuleDecision {
    let question = one_line(&turn.question);
    let mut queries = vec![question.clone()];
    let words = content_words(&question);
    let first = words.iter().take(12).cloned().collect::<Vec<_>>().join(" ");
    let joined: String = words.iter().take(4).cloned().collect();
    for query in [first, joined] {
        if !query.is_empty() && !queries.contains(&query) {
            queries.push(query);
        }
    }
    RuleDecision {
        queries,
        reason: in_language(turn, ["내용어만 남겼습니다", "only content words were kept"]),
        ..RuleDecision::default()
    }
}

/// What may be quoted: what came with the question, or else passages, and what tools of this turn brought. Whoever gives a
/// text along asks about that one: the same words in another document would be a wrong answer.
pub(super) fn sources<'a>(turn: &OfflineTurn<'a>) -> Vec<QuotableSource<'a>> {
    let given = turn.attached.iter().map(|text| QuotableSource {
        title: "",
        text,
        kind: QuotableSourceKind::Document,
        cite: SourceCitation::Given,
    });
    let searched = turn.passages.iter().filter(|_| turn.attached.is_empty());
    let passages = searched.map(|passage| QuotableSource {
        title: &passage.title,
        text: &passage.text,
        kind: QuotableSourceKind::of_passage(passage.kind),
        cite: SourceCitation::Number(passage.number),
    });
    let results = turn.results.iter().filter(|result| !result.failed).map(|result| QuotableSource {
        title: &result.name,
        text: &result.text,
        kind: QuotableSourceKind::of_tool(&result.name),
        cite: SourceCitation::Tool(&result.name),
    });
    given.chain(passages).chain(results).collect()
}

/// Greetings, thanks, statements about oneself, questions about the program.
pub(super) fn is_small_talk(question: &str) -> bool {
    let rest: Vec<&str> =
        sentences(question).into_iter().filter(|sentence| facts::stated_fact(sentence).is_none()).collect();
    let rest = rest.join(" ");
    rest.is_empty()
        || is_courtesy(&rest)
        || Cue::Greeting.is_in(&rest)
        || Cue::Thanks.is_in(&rest)
        || Cue::Bye.is_in(&rest)
        || Cue::Filler.is_in(&rest)
        || Cue::AsksWhatItIs.is_in(&rest)
}

/// Whether the conversation is asked for, or holds what is asked about the person. Anything else about a person, such as "my
/// leave", may stand in documents.
pub(super) fn asks_for_what_was_said(turn: &OfflineTurn<'_>) -> bool {
    let question = turn.question.as_str();
    Cue::AsksToRecall.is_in(question)
        || sentences(question)
            .into_iter()
            .filter(|sentence| facts::stated_fact(sentence).is_none())
            .filter_map(facts::personal_fact_question)
            .any(|asked| answer::is_known(turn, &asked))
}

fn names_documents(question: &str) -> bool {
    let wishes = intent::intents_of(question);
    let for_a_tool = |wish: &QuestionIntent| matches!(wish, QuestionIntent::File(_) | QuestionIntent::Run(_));
    let article = |wish: &QuestionIntent| matches!(wish, QuestionIntent::Article(_));
    !wishes.iter().any(for_a_tool) && (Cue::NamesDocuments.is_in(question) || wishes.iter().any(article))
}

fn is_about_contracts(question: &str) -> bool {
    let contract = |wish: &QuestionIntent| {
        matches!(wish, QuestionIntent::Article(_) | QuestionIntent::Title(_) | QuestionIntent::Standard)
    };
    Cue::AboutContracts.is_in(question) || intent::intents_of(question).iter().any(contract)
}

/// The words of a wish to sum up that name what is to be summed up: 회의록 in "회의록 요약해줘". None where it is the conversation or
/// the answer before.
pub(super) fn subject_of_summary(question: &str) -> Vec<QuestionTerm> {
    if Cue::AboutConversation.is_in(question) || Cue::PointsBack.is_in(question) {
        return Vec::new();
    }
    question_terms(question).into_iter().filter(|term| !Cue::SaysHowToSumUp.is_in(&term.stem)).collect()
}

/// Whether a question is too short to stand alone: "왜?", "언제까지?", "더 자세히 알려줘".
fn is_elliptic(question: &str) -> bool {
    (words(question).len() <= 3 && Cue::GoesOn.is_in(question)) || question_terms(question).is_empty()
}

fn is_for_a_tool(wish: &QuestionIntent) -> bool {
    is_of_the_world(wish) || matches!(wish, QuestionIntent::File(_) | QuestionIntent::Run(_))
}

fn is_of_the_world(wish: &QuestionIntent) -> bool {
    match wish {
        QuestionIntent::Compute(_)
        | QuestionIntent::ComputeWhat
        | QuestionIntent::Time(_)
        | QuestionIntent::Weather(_)
        | QuestionIntent::WeatherWhere => true,
        QuestionIntent::Encyclopedia(_) | QuestionIntent::Web(_) => true,
        QuestionIntent::Remember(_) | QuestionIntent::Recall(_) | QuestionIntent::Forget(_) => true,
        QuestionIntent::File(_)
        | QuestionIntent::Run(_)
        | QuestionIntent::Person(_)
        | QuestionIntent::Article(_)
        | QuestionIntent::Title(_)
        | QuestionIntent::Standard => false,
    }
}

fn in_language(turn: &OfflineTurn<'_>, [ko, en]: [&str; 2]) -> String {
    match turn.language {
        Language::Korean => ko.into(),
        Language::English => en.into(),
    }
}

/// A question on one line, without control characters, at most 500 characters of it.
pub(super) fn one_line(question: &str) -> String {
    let words: Vec<&str> =
        question.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ").chars().take(500).collect()
}
