//! Picks the sentences of the material that share most with a question. Nothing is written here: every pick is a
//! slice of what was given.

use std::collections::{BTreeMap, BTreeSet};

use super::article::{Article, articles};
use super::lean;
use super::talk;
use super::text::{held, sentences, wanted};
use super::wish::{self, Wish, wishes};

/// How much of a question's weight a sentence must share to be quoted. Set by trial on the sample documents: 0.5
/// leaves some of their questions unanswered; less than this answers no more of them and quotes on thinner ground.
const ENOUGH: f64 = 0.4;

/// What a sentence gains by holding a number in the unit that was asked for.
const UNIT_BONUS: f64 = 0.1;

/// How much a feature counts that stands in the title of a passage and not in the sentence itself.
const TITLE_SHARE: f64 = 0.5;

/// The longest quote in bytes; what is longer is cut at a character and is still word for word.
const LONGEST: usize = 1200;

/// The most sentences of one article that are quoted.
const ARTICLE_SENTENCES: usize = 8;

/// The most sentences that rules look at; material beyond is not read.
const MOST_SENTENCES: usize = 4000;

/// The most things that one question is taken to ask.
const MOST_PARTS: usize = 8;

/// Something to quote from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// What the place is called.
    pub(super) title: &'a str,
    /// Its words.
    pub(super) text: &'a str,
    /// Whose it is.
    pub(super) kind: SourceKind,
    /// By what it is cited: the number of a passage, or the name of a tool.
    pub(super) cite: Cite<'a>,
}

/// By what a source is cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cite<'a> {
    /// The number of a passage.
    Number(u32),
    /// The name of a tool.
    Tool(&'a str),
}

/// Whose a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceKind {
    /// Any document, or the person's own contract.
    Own,
    /// A standard contract.
    Standard,
}

impl SourceKind {
    /// The kind that a title tells.
    pub(super) fn of_title(title: &str) -> Self {
        // What a document is called comes first; headings and remarks may speak of the other side.
        let lower = title.split(" › ").next().unwrap_or_default().to_lowercase();
        let standard = lower.contains("표준") || lower.contains("standard");
        if standard { Self::Standard } else { Self::Own }
    }
}

/// A sentence and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick<'a> {
    /// The words.
    pub(super) sentence: &'a str,
    /// Where they stand.
    pub(super) source: Source<'a>,
}

/// What was found for a question.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    /// The sentences, each once.
    pub(super) picks: Vec<Pick<'a>>,
    /// Parts of the question for which nothing was found.
    pub(super) missing: Vec<String>,
}

/// The sentences that answer a question: whole articles that it names, else the best sentence for each thing it asks,
/// from the person's own documents and from standard contracts apart.
pub(super) fn answers<'a>(question: &str, sources: &[Source<'a>]) -> Found<'a> {
    if wish::one_sided(question).is_some() {
        return Found { picks: one_sided(sources), missing: Vec::new() };
    }
    let mut found = Found::default();
    for article in articles(question).into_iter().take(MOST_PARTS) {
        let picks = of_article(article, sources);
        if picks.is_empty() {
            found.missing.push(article.to_string());
        }
        picks.into_iter().for_each(|pick| add(&mut found.picks, pick));
    }
    let index = Index::of(sources);
    if !found.picks.is_empty() {
        for part in beside_articles(question) {
            let picks = match index.best(part, |_| true) {
                Some(pick) => vec![pick],
                None => of_title(part, SourceKind::Own, sources),
            };
            if picks.is_empty() {
                found.missing.push(part.to_owned());
            }
            picks.into_iter().for_each(|pick| add(&mut found.picks, pick));
        }
        return found;
    }
    let mut found = Found::default();
    for kind in [SourceKind::Own, SourceKind::Standard] {
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
        let for_documents = wishes(part).iter().all(|wish| matches!(wish, Wish::Title(_)));
        articles(part).is_empty()
            && for_documents
            && talk::asks(part)
            && wanted(part).len() > 1
            && !lean::points_back(part)
            && !talk::wants_a_summary(part)
    };
    let parts = sentences(question).into_iter().flat_map(|sentence| sentence.split(" 그리고 "));
    if articles(question).is_empty() { Vec::new() } else { parts.map(str::trim).filter(alone).collect() }
}

/// The sentence that shares most with the question; the first of equals.
pub(super) fn best<'a>(question: &str, sources: &[Source<'a>]) -> Option<Pick<'a>> {
    Index::of(sources).best(question, |_| true)
}

/// The first words of every article that is said to be on one side only.
fn one_sided<'a>(sources: &[Source<'a>]) -> Vec<Pick<'a>> {
    let said = |text: &str| text.contains("」에 없는 조항") || text.contains("not in “");
    let marked = sources.iter().filter(|source| match source.cite {
        Cite::Number(_) => said(source.title),
        Cite::Tool(_) => said(source.text),
    });
    let first = marked.filter_map(|source| {
        let sentence = sentences(source.text).into_iter().next()?;
        Some(Pick { sentence: &sentence[..sentence.floor_char_boundary(LONGEST)], source: *source })
    });
    first.collect()
}

fn add<'a>(picks: &mut Vec<Pick<'a>>, pick: Pick<'a>) {
    let known = |other: &Pick<'_>| other.sentence == pick.sentence && other.source.cite == pick.source.cite;
    if !picks.iter().any(known) {
        picks.push(pick);
    }
}

/// The first sentences of an article: of the sources whose title, or whose first line, names it.
fn of_article<'a>(article: Article, sources: &[Source<'a>]) -> Vec<Pick<'a>> {
    let mut picks = Vec::new();
    for source in sources {
        let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        if !article.is_named_in(source.title) && !article.is_named_in(first) {
            continue;
        }
        let sentences = quotable(source.text).take(ARTICLE_SENTENCES);
        picks.extend(sentences.map(|sentence| Pick { sentence, source: *source }));
    }
    picks
}

/// The first sentences of the articles of this kind whose title a question names: "비밀유지 기간은?" names
/// `제10조(비밀유지)`, though no sentence of it may hold the word.
fn of_title<'a>(question: &str, kind: SourceKind, sources: &[Source<'a>]) -> Vec<Pick<'a>> {
    let bare = |text: &str| text.split_whitespace().collect::<String>().to_lowercase();
    let asked = bare(question);
    let names = |source: &&Source<'_>| {
        let inner = source.title.strip_suffix(')').and_then(|title| title.rsplit_once('('));
        inner
            .map(|(_, title)| bare(title))
            .is_some_and(|title| title.chars().count() > 1 && asked.contains(&title))
    };
    let named = sources.iter().filter(|source| source.kind == kind).filter(names);
    named
        .flat_map(|source| {
            quotable(source.text)
                .take(ARTICLE_SENTENCES)
                .map(move |sentence| Pick { sentence, source: *source })
        })
        .collect()
}

/// The sentences of the sources with what they hold.
struct Index<'a> {
    candidates: Vec<(Pick<'a>, BTreeSet<String>)>,
    titles: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> Index<'a> {
    fn of(sources: &[Source<'a>]) -> Self {
        let picks = sources
            .iter()
            .flat_map(|source| quotable(source.text).map(move |sentence| Pick { sentence, source: *source }));
        let candidates = picks.take(MOST_SENTENCES).map(|pick| (pick, held(pick.sentence))).collect();
        let titles = sources.iter().map(|source| (source.title, held(source.title))).collect();
        Self { candidates, titles }
    }

    /// The sentence of these sources that shares most with the question. A feature counts the more, the fewer
    /// sentences have it.
    fn best(&self, question: &str, of: impl Fn(&Source<'a>) -> bool) -> Option<Pick<'a>> {
        let wanted = wanted(question);
        let candidates: Vec<_> = self.candidates.iter().filter(|(pick, _)| of(&pick.source)).collect();
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, has) in &candidates {
            for feature in wanted.iter().filter(|feature| has.contains(*feature)) {
                *holders.entry(feature).or_default() += 1;
            }
        }
        let total = candidates.len() as f64;
        let weight = |feature: &str| {
            let holders = holders.get(feature).copied().unwrap_or(0) as f64;
            (1.0 + total / (1.0 + holders)).ln()
        };
        let whole: f64 = wanted.iter().map(|feature| weight(feature)).sum();
        let units = units_asked(question);
        let mut best: Option<(f64, Pick<'a>)> = None;
        for (pick, has) in candidates {
            let title = self.titles.get(pick.source.title);
            let (mut in_sentence, mut in_title) = (0.0, 0.0);
            for feature in &wanted {
                if has.contains(feature) {
                    in_sentence += weight(feature);
                } else if title.is_some_and(|title| title.contains(feature)) {
                    in_title += weight(feature);
                }
            }
            let score = (in_sentence + TITLE_SHARE * in_title) / whole;
            // A title alone says nothing about which of its sentences answers.
            let enough = in_sentence > 0.0 && score >= ENOUGH;
            let rank = score + if holds_number_in(pick.sentence, units) { UNIT_BONUS } else { 0.0 };
            if enough && best.is_none_or(|(most, _)| rank > most) {
                best = Some((rank, *pick));
            }
        }
        best.map(|(_, pick)| pick)
    }
}

/// The sentences of a text that may be quoted: no headings, none endless.
pub(super) fn quotable(text: &str) -> impl Iterator<Item = &str> {
    let kept = sentences(text).into_iter().filter(|sentence| !is_heading(sentence));
    kept.map(|sentence| sentence[..sentence.floor_char_boundary(LONGEST)].trim_end())
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
    parts.retain(|part| known.insert(*part) && !wanted(part).is_empty());
    parts.truncate(MOST_PARTS);
    parts
}

fn joint(text: &str) -> Option<(usize, usize)> {
    const JOINTS: [&str; 9] =
        [" 그리고 ", "이고 ", "이고, ", ", ", " and what ", " and how ", " and who ", " and when ", "; "];
    JOINTS.iter().filter_map(|joint| text.find(joint).map(|at| (at, joint.len()))).min()
}

/// The units in which a question wants its number: "며칠" asks for days, "얼마" for money.
fn units_asked(question: &str) -> &'static [&'static str] {
    const ASKED: [(&str, &[&str]); 7] = [
        ("며칠", &["일"]),
        ("몇 일", &["일"]),
        ("몇 시간", &["시간"]),
        ("몇 자", &["자"]),
        ("얼마", &["원", "만 원"]),
        ("how many days", &[" days", " day"]),
        ("how much", &[" won", " dollars"]),
    ];
    let question = question.to_lowercase();
    ASKED.iter().find(|(word, _)| question.contains(word)).map_or(&[], |(_, units)| units)
}

fn holds_number_in(sentence: &str, units: &[&str]) -> bool {
    let digits = sentence.char_indices().filter(|(_, char)| char.is_ascii_digit());
    digits.map(|(at, _)| &sentence[at + 1..]).any(|rest| units.iter().any(|unit| rest.starts_with(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source<'a>(title: &'a str, text: &'a str, number: u32) -> Source<'a> {
        Source { title, text, kind: SourceKind::of_title(title), cite: Cite::Number(number) }
    }

    fn found(question: &str) -> String {
        let sources = [
            source("용역계약서 제5조(대금)", "① 대금은 5천만 원으로 한다.\n② 대금은 30일 안에 지급한다.", 1),
            source("표준계약서 제5조(대금)", "대금은 10일 안에 지급한다.", 2),
            source("용역계약서 제9조(해지)", "갑은 30일 전에 알리고 해지할 수 있다.", 3),
        ];
        let found = answers(question, &sources);
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
            let found = answers(question, &[own, form]);
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
