//! Picks the sentences of the material that share most with a question. Nothing is written here: every pick is a
//! slice of what was given.

use std::collections::BTreeSet;

use doran_agents::agents::contract::has_missing_article_remark;
use doran_retrieval::HEADING_SEPARATOR;

use super::anaphora;
use super::article::articles;
use super::expected_answer::ExpectedAnswer;
use super::intent::{self, QuestionIntent, intents_of};
use super::place_mentions::{PlaceMention, place_mentions};
use super::sentence_ranking::SentenceIndex;
use super::small_talk;
use super::text::{contains_any_cue, content_words, question_features, sentences};

/// The longest quote in bytes; what is longer is cut at a character and is still word for word.
const MAX_QUOTE_BYTES: usize = 1200;

/// The most sentences of one article that are quoted.
const MAX_SENTENCES_PER_ARTICLE: usize = 8;

/// The most things that one question is taken to ask.
const MAX_QUESTION_PARTS: usize = 8;

/// Something to quote from.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotableSource<'a> {
    /// What the place is called.
    pub(super) title: &'a str,
    /// Its words.
    pub(super) text: &'a str,
    /// Whose it is.
    pub(super) kind: QuotableSourceKind,
    /// By what it is cited: the number of a passage, or the name of a tool.
    pub(super) cite: SourceCitation<'a>,
}

/// By what a source is cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceCitation<'a> {
    /// The number of a passage.
    Number(u32),
    /// The name of a tool.
    Tool(&'a str),
    /// The text that came with the question.
    Given,
}

/// Whose a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotableSourceKind {
    /// Any document, or the person's own contract.
    Own,
    /// A standard contract.
    Standard,
}

impl QuotableSourceKind {
    /// The kind that a title tells.
    pub(super) fn of_title(title: &str) -> Self {
        // What a document is called comes first; headings and remarks may speak of the other side.
        let lower = title.split(HEADING_SEPARATOR).next().unwrap_or_default().to_lowercase();
        let standard = lower.contains("표준") || lower.contains("standard");
        if standard { Self::Standard } else { Self::Own }
    }
}

/// A sentence and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct PickedSentence<'a> {
    /// The words.
    pub(super) sentence: &'a str,
    /// Where they stand.
    pub(super) source: QuotableSource<'a>,
}

/// What was found for a question.
#[derive(Debug, Default)]
pub(super) struct QuotesFound<'a> {
    /// The sentences, each once.
    pub(super) picks: Vec<PickedSentence<'a>>,
    /// Parts of the question for which nothing was found.
    pub(super) missing: Vec<String>,
}

/// The sentences that answer a question: whole articles that it names, else the best sentence for each thing it asks,
/// from the person's own documents and from standard contracts apart.
pub(super) fn find_quotes<'a>(question: &str, sources: &[QuotableSource<'a>]) -> QuotesFound<'a> {
    if intent::one_sided(question).is_some() {
        return QuotesFound { picks: one_sided(sources), missing: Vec::new() };
    }
    let mut found = QuotesFound::default();
    let (named, rest) = place_mentions(question);
    for place in named.iter().take(MAX_QUESTION_PARTS) {
        let picks = of_place(place, sources);
        if picks.is_empty() {
            found.missing.push(place.to_string());
        }
        picks.into_iter().for_each(|pick| add(&mut found.picks, pick));
    }
    let index = SentenceIndex::from_sources(sources);
    if !named.is_empty() {
        let beside = beside_articles(question);
        for part in &beside {
            let picks = match index.best(part, |_| true) {
                Some(pick) => vec![pick],
                None => of_title(part, QuotableSourceKind::Own, sources),
            };
            if picks.is_empty() {
                found.missing.push((*part).to_owned());
            }
            picks.into_iter().for_each(|pick| add(&mut found.picks, pick));
        }
        // Of a place that is not there its neighbours say nothing; what else the question names may still be answered.
        if found.picks.is_empty() && beside.is_empty() && question_features(&rest).len() > 1 {
            for kind in [QuotableSourceKind::Own, QuotableSourceKind::Standard] {
                let pick = index.best(&rest, |source| source.kind == kind);
                pick.into_iter().for_each(|pick| add(&mut found.picks, pick));
            }
        }
        return found;
    }
    if let Some(picks) = overview(question, sources) {
        return QuotesFound { picks, ..found };
    }
    for kind in [QuotableSourceKind::Own, QuotableSourceKind::Standard] {
        match index.best(question, |source| source.kind == kind) {
            Some(pick) => add(&mut found.picks, pick),
            None => {
                of_title(question, kind, sources).into_iter().for_each(|pick| add(&mut found.picks, pick));
            }
        }
    }
    let parts = parts(question);
    if parts.len() > 1 {
        for part in parts {
            match index.best(part, |_| true) {
                Some(pick) => add(&mut found.picks, pick),
                None => found.missing.push(part.to_owned()),
            }
        }
    }
    found
}

/// What a question that names articles asks beside them: its other sentences, where they stand alone.
pub(super) fn beside_articles(question: &str) -> Vec<&str> {
    let alone = |part: &&str| {
        let for_documents = intents_of(part).iter().all(|wish| matches!(wish, QuestionIntent::Title(_)));
        articles(part).is_empty()
            && for_documents
            && small_talk::is_question_or_request(part)
            && question_features(part).len() > 1
            && !anaphora::points_back(part)
            && !small_talk::wants_a_summary(part)
    };
    let parts = sentences(question).into_iter().flat_map(|sentence| sentence.split(" 그리고 "));
    if articles(question).is_empty() { Vec::new() } else { parts.map(str::trim).filter(alone).collect() }
}

/// The sentence that shares most with the question; the first of equals.
pub(super) fn best_sentence<'a>(
    question: &str,
    sources: &[QuotableSource<'a>],
) -> Option<PickedSentence<'a>> {
    SentenceIndex::from_sources(sources).best(question, |_| true)
}

/// The first words of every article that is said to be on one side only.
fn one_sided<'a>(sources: &[QuotableSource<'a>]) -> Vec<PickedSentence<'a>> {
    let marked = sources.iter().filter(|source| match source.cite {
        SourceCitation::Number(_) => has_missing_article_remark(source.title),
        SourceCitation::Tool(_) | SourceCitation::Given => has_missing_article_remark(source.text),
    });
    let first = marked.filter_map(|source| {
        let sentence = sentences(source.text).into_iter().next()?;
        Some(PickedSentence {
            sentence: &sentence[..sentence.floor_char_boundary(MAX_QUOTE_BYTES)],
            source: *source,
        })
    });
    first.collect()
}

fn add<'a>(picks: &mut Vec<PickedSentence<'a>>, pick: PickedSentence<'a>) {
    let known =
        |other: &PickedSentence<'_>| other.sentence == pick.sentence && other.source.cite == pick.source.cite;
    if !picks.iter().any(known) {
        picks.push(pick);
    }
}

/// The first sentence under each heading of the document that a question names, where it asks for that document as a
/// whole: "회사 휴가 정책이 뭐야?" asks for what the 휴가 규정 rules, and not for the words that introduce it.
fn overview<'a>(question: &str, sources: &[QuotableSource<'a>]) -> Option<Vec<PickedSentence<'a>>> {
    const RULES: &str = "정책|규정|규칙|제도|지침|policy|policies|rules|regulation";
    const AROUND: &str = "회사|사내|우리|저희|전체|내용|설명|정책|규정|규칙|제도|지침|company|our|policy|policies|rule|regulation";
    if !contains_any_cue(&question.to_lowercase(), RULES)
        || ExpectedAnswer::of_question(question).is_for_one_thing()
    {
        return None;
    }
    let named = |word: &String| !AROUND.split('|').any(|around| word.starts_with(around));
    let subject: Vec<String> = content_words(question).into_iter().filter(named).collect();
    let of_subject = |source: &&QuotableSource<'_>| {
        let heads = source.title.split_once(HEADING_SEPARATOR);
        heads.is_some_and(|(document, _)| subject.iter().all(|word| document.to_lowercase().contains(word)))
    };
    let mut picks: Vec<PickedSentence<'a>> = Vec::new();
    for source in sources.iter().filter(of_subject).take(MAX_QUESTION_PARTS) {
        let first = quotable(source.text).next().map(|sentence| PickedSentence { sentence, source: *source });
        first.into_iter().for_each(|pick| add(&mut picks, pick));
    }
    (!subject.is_empty() && picks.len() > 1).then_some(picks)
}

/// The first sentences of a place: of the sources whose title, or whose first line, names it.
fn of_place<'a>(place: &PlaceMention, sources: &[QuotableSource<'a>]) -> Vec<PickedSentence<'a>> {
    let mut picks = Vec::new();
    for source in sources {
        let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        if !place.is_named_in(source.title) && !place.is_named_in(first) {
            continue;
        }
        let sentences = quotable(source.text).take(MAX_SENTENCES_PER_ARTICLE);
        picks.extend(sentences.map(|sentence| PickedSentence { sentence, source: *source }));
    }
    picks
}

/// The first sentences of the articles of this kind whose title a question names: "비밀유지 기간은?" names
/// `제10조(비밀유지)`, though no sentence of it may hold the word.
fn of_title<'a>(
    question: &str,
    kind: QuotableSourceKind,
    sources: &[QuotableSource<'a>],
) -> Vec<PickedSentence<'a>> {
    let bare = |text: &str| text.split_whitespace().collect::<String>().to_lowercase();
    let asked = bare(question);
    let names = |source: &&QuotableSource<'_>| {
        let inner = source.title.strip_suffix(')').and_then(|title| title.rsplit_once('('));
        inner
            .map(|(_, title)| bare(title))
            .is_some_and(|title| title.chars().count() > 1 && asked.contains(&title))
    };
    let named = sources.iter().filter(|source| source.kind == kind).filter(names);
    named
        .flat_map(|source| {
            quotable(source.text)
                .take(MAX_SENTENCES_PER_ARTICLE)
                .map(move |sentence| PickedSentence { sentence, source: *source })
        })
        .collect()
}

/// The sentences of a text that may be quoted: no headings, none endless.
pub(super) fn quotable(text: &str) -> impl Iterator<Item = &str> {
    let kept = sentences(text).into_iter().filter(|sentence| !is_heading(sentence));
    kept.map(|sentence| sentence[..sentence.floor_char_boundary(MAX_QUOTE_BYTES)].trim_end())
}

/// Whether a line only names what follows: `## …`, or `제8조(지체상금)` alone. It says nothing that could be an answer.
fn is_heading(sentence: &str) -> bool {
    let article = |line: &str| {
        let inner = line.strip_suffix(')').and_then(|line| line.split_once('('));
        inner.is_some_and(|(number, title)| {
            number.starts_with('제') && number.contains('조') && !number.contains(' ') && !title.contains(')')
        })
    };
    sentence.starts_with('#') || article(sentence)
}

/// The things a question asks for, as slices of it: sentences, and what "그리고", ",", "이고" or "and" joins. Joined
/// nouns ("기간과 급여는") stay together: apart they lose what they belong to.
pub(super) fn parts(question: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for sentence in sentences(question) {
        let mut rest = sentence;
        while let Some((at, len)) = joint(rest) {
            parts.push(rest[..at].trim());
            rest = &rest[at + len..];
        }
        parts.push(rest.trim());
    }
    let mut known = BTreeSet::new();
    parts.retain(|part| known.insert(*part) && !question_features(part).is_empty());
    parts.truncate(MAX_QUESTION_PARTS);
    parts
}

fn joint(text: &str) -> Option<(usize, usize)> {
    const JOINTS: [&str; 9] =
        [" 그리고 ", "이고 ", "이고, ", ", ", " and what ", " and how ", " and who ", " and when ", "; "];
    JOINTS.iter().filter_map(|joint| text.find(joint).map(|at| (at, joint.len()))).min()
}

#[cfg(test)]
mod tests {
    use doran_agents::UserLanguage;
    use doran_agents::request_format::{standard_contract_heading, user_contract_heading};
    use doran_agents::tools::names;

    use super::*;

    fn source<'a>(title: &'a str, text: &'a str, number: u32) -> QuotableSource<'a> {
        QuotableSource {
            title,
            text,
            kind: QuotableSourceKind::of_title(title),
            cite: SourceCitation::Number(number),
        }
    }

    #[test]
    fn the_headings_of_agents_tell_whose_a_source_is() {
        for language in [UserLanguage::Ko, UserLanguage::En] {
            let kind = |heading: &str| {
                QuotableSourceKind::of_title(&format!("{heading}{HEADING_SEPARATOR}제5조(표준)"))
            };
            assert_eq!(kind(standard_contract_heading(language)), QuotableSourceKind::Standard);
            assert_eq!(kind(user_contract_heading(language)), QuotableSourceKind::Own);
        }
        let standard = QuotableSourceKind::of_title(names::LOOKUP_STANDARD_CONTRACT);
        assert_eq!(standard, QuotableSourceKind::Standard);
    }

    fn found(question: &str) -> String {
        let sources = [
            source("용역계약서 제5조(대금)", "① 대금은 5천만 원으로 한다.\n② 대금은 30일 안에 지급한다.", 1),
            source("표준계약서 제5조(대금)", "대금은 10일 안에 지급한다.", 2),
            source("용역계약서 제9조(해지)", "갑은 30일 전에 알리고 해지할 수 있다.", 3),
        ];
        let found = find_quotes(question, &sources);
        let picks = found.picks.iter().map(|pick| format!("{:?} {}", pick.source.kind, pick.sentence));
        picks.chain(found.missing.iter().map(|part| format!("? {part}"))).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_named_article_is_quoted_whole() {
        assert_eq!(
            found("제5조 내용이 뭐야?"),
            "Own ① 대금은 5천만 원으로 한다. | Own ② 대금은 30일 안에 지급한다. | Standard 대금은 10일 안에 지급한다."
        );
        assert_eq!(found("제9조와 제77조는?"), "Own 갑은 30일 전에 알리고 해지할 수 있다. | ? 제77조");
    }

    #[test]
    fn of_a_place_that_is_not_there_no_neighbour_is_told() {
        for question in
            ["제5조의2 알려줘", "제99조 내용은?", "제5-2조 보여줘", "별지 1 보여줘", "부칙 제5조는?"]
        {
            let told = found(question);
            assert!(told.starts_with("? ") && !told.contains('|'), "{question}: {told}");
        }
        let told = found("제99조의 대금은 언제 지급하나요?");
        assert!(told.contains("30일 안에 지급한다") && told.ends_with("? 제99조"), "{told}");
    }

    #[test]
    fn who_asks_for_a_whole_document_is_told_its_rules_and_not_its_preamble() {
        let sources = [
            source("휴가 규정", "이 규정은 회사의 본보기 문서이다.", 1),
            source("휴가 규정 › 연차휴가", "연차휴가 15일을 준다. 반일로 나눌 수 있다.", 2),
            source("휴가 규정 › 병가", "병가는 60일까지 쓴다.", 3),
            source("경비 규정 › 출장비", "출장비는 실비로 한다.", 4),
        ];
        let told = |question: &str| {
            let found = find_quotes(question, &sources);
            found.picks.iter().map(|pick| pick.sentence).collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(told("회사 휴가 정책이 뭐야?"), "연차휴가 15일을 준다. | 병가는 60일까지 쓴다.");
        assert_eq!(told("휴가 규정에서 병가는 며칠이야?"), "병가는 60일까지 쓴다.");
    }

    #[test]
    fn the_contract_and_the_standard_are_kept_apart() {
        assert_eq!(
            found("대금은 언제 지급하나요?"),
            "Own ② 대금은 30일 안에 지급한다. | Standard 대금은 10일 안에 지급한다."
        );
    }

    #[test]
    fn what_is_asked_beside_an_article_is_answered_too() {
        assert_eq!(
            found("해지는 며칠 전에 알리나요? 그리고 제5조도 보여줘"),
            "Own ① 대금은 5천만 원으로 한다. | Own ② 대금은 30일 안에 지급한다. | Standard 대금은 10일 안에 지급한다. | \
             Own 갑은 30일 전에 알리고 해지할 수 있다."
        );
        assert!(found("주차장은 어디인가요? 제9조도 보여줘").ends_with("| ? 주차장은 어디인가요?"));
        for question in ["제5조와 제7조 비교해줘", "제5조 보여줘. 고마워!", "제5조를 봐줘. 무엇이 달라?"]
        {
            assert!(beside_articles(question).is_empty(), "{question}");
        }
    }

    #[test]
    fn every_thing_asked_is_looked_for() {
        let told = found("해지는 며칠 전에 알리나요? 주차장은 어디인가요?");
        assert!(told.contains("해지할 수 있다") && told.ends_with("? 주차장은 어디인가요?"), "{told}");
    }

    #[test]
    fn a_heading_is_no_answer_and_its_title_leads_to_what_stands_below() {
        let own = source("계약서 › 제8조(지체상금)", "제8조(지체상금)\n늦은 하루마다 0.25퍼센트를 낸다.", 1);
        let form = source("표준계약서 › 제9조(지체상금)", "제9조(지체상금)\n하루마다 0.125퍼센트를 낸다.", 2);
        let told = |question: &str| {
            let found = find_quotes(question, &[own, form]);
            found.picks.iter().map(|pick| pick.sentence).collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(
            told("지체 상금은 표준과 어떻게 달라?"),
            "늦은 하루마다 0.25퍼센트를 낸다. | 하루마다 0.125퍼센트를 낸다."
        );
        assert_eq!(told("제8조는?"), "늦은 하루마다 0.25퍼센트를 낸다.");
        assert_eq!(told("주차는 어디에 하나요?"), "");
        assert!(is_heading("제6조의2(특별 승진)") && !is_heading("제5조(해지) 갑은 해지할 수 있다."));
        assert!(!is_heading("제1항의 조건(아래)"));
    }

    #[test]
    fn questions_come_apart_at_their_joints() {
        assert_eq!(parts("연차는 며칠이고 병가는 며칠이야?"), ["연차는 며칠", "병가는 며칠이야?"]);
        assert_eq!(parts("기간과 급여는?"), ["기간과 급여는?"]);
        assert_eq!(parts("What is the limit and who approves it?").len(), 2);
    }
}
