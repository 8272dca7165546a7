//! Chooses what to quote: the places that a question names, else the units that answer it best, one to three of them.
//! Nothing is written here: every word of a quote stands in the material.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use doran_agents::agents::contract::StandardComparison;
use doran_retrieval::{ArticleNumber, HEADING_SEPARATOR, MessageQuestion, asks_or_requests};
use regex::Regex;

use super::compared_quotes::compared_quotes;
use super::comparison;
use super::cues::Cue;
use super::intent::{QuestionIntent, intents_of};
use super::places::{NamedPlace, article_titles, named_articles, named_places};
use super::ranking::{AskedQuestion, RankedUnit, UnitIndex, question_terms};
use super::text::{sentences, squeezed};
use super::units::{
    QuotableSource, QuotableSourceKind, QuotableUnit, SourceCitation, UnitKind, row_cells, split_units,
};
use super::weights::{CLOSE, NEAR, confidence, covers_question, is_sure};

/// The most units that are quoted of one article, list or procedure.
const MAX_UNITS_PER_PLACE: usize = 12;

/// The most places that are quoted of those that a question names, such as the articles of a range.
const MAX_PLACES: usize = 30;

/// The most units that are quoted where the question names no place and asks for no list.
const MAX_QUOTED_UNITS: usize = 3;

/// A row of more cells is quoted with the columns that the question asks for.
const MAX_CELLS_OF_WHOLE_ROW: usize = 4;

/// From this confidence on a quote is one side of a comparison.
const EITHER_SIDE: f64 = 0.08;

#[allow(clippy::expect_used, reason = "the pattern is fixed, and every test uses it")]
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    let korean = r"(\S+?)(?:와|과|이랑|랑|하고|및)\s+(?:그리고\s+)?(\S+)";
    let english = r"(\S+) (?:and|or|versus|vs\.?) (?:(?:the|a|an|on|in|at|for|of) )*(\S+)";
    Regex::new(&format!("(?i){korean}|{english}")).expect("a pattern")
});

#[allow(clippy::expect_used, reason = "the pattern is fixed, and every test uses it")]
static STANDARD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)표준\s?(?:용역\s?)?계약서?(?:와|과|하고|이랑|에서|에는|에|의|보다)?|(?:the )?standard (?:contract|form|agreement)")
        .expect("a pattern")
});

/// A quote and where it stands.
#[derive(Clone, Debug)]
pub(super) struct PickedQuote<'a> {
    /// The words.
    pub(super) words: String,
    /// Where they stand.
    pub(super) source: QuotableSource<'a>,
    /// Whether it answers the question, or is only the nearest.
    pub(super) is_sure: bool,
}

/// How much of contracts the quotes of a comparison are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ComparisonExtent {
    /// They are of no comparison, or of one subject.
    #[default]
    Subject,
    /// They are of contracts as a whole.
    Whole,
}

/// What was found for a question.
#[derive(Debug, Default)]
pub(super) struct QuotesFound<'a> {
    /// What articles that are compared are told for.
    pub(super) extent: ComparisonExtent,
    /// The quotes, each once.
    pub(super) picks: Vec<PickedQuote<'a>>,
    /// Parts of the question for which nothing was found.
    pub(super) missing: Vec<String>,
}

impl<'a> QuotesFound<'a> {
    pub(super) fn add(&mut self, words: String, source: QuotableSource<'a>, is_sure: bool) {
        let known =
            self.picks.iter().any(|other| other.source.cite == source.cite && other.words.contains(&words));
        if !known && !words.is_empty() {
            self.picks.push(PickedQuote { words, source, is_sure });
        }
    }

    fn add_unit(
        &mut self,
        unit: &QuotableUnit<'a>,
        index: &UnitIndex<'a>,
        asked: AskedQuestion<'_>,
        is_sure: bool,
    ) {
        self.add(quoted_words(unit, asked), index.sources()[unit.source], is_sure);
    }

    /// Adds a unit, and before an item of a list the sentence that leads to it: alone it may read as its opposite.
    fn add_with_lead(
        &mut self,
        unit: &QuotableUnit<'a>,
        index: &UnitIndex<'a>,
        asked: AskedQuestion<'_>,
        is_sure: bool,
    ) {
        let title = |unit: &QuotableUnit<'_>| index.sources()[unit.source].title;
        let leads = |other: &&QuotableUnit<'_>| {
            other.text == unit.lead && other.leads_to_list() && title(other) == title(unit)
        };
        if let Some(lead) = index.units().find(leads).filter(|_| unit.kind == UnitKind::Item) {
            self.add_unit(lead, index, asked, is_sure);
        }
        self.add_unit(unit, index, asked, is_sure);
    }
}

/// The words of a unit that answer a question: of a wide table row the columns that it asks for.
pub(super) fn quoted_words(unit: &QuotableUnit<'_>, asked: AskedQuestion<'_>) -> String {
    if row_cells(unit.text).len() <= MAX_CELLS_OF_WHOLE_ROW {
        return unit.quoted(|_, _| true);
    }
    let mut terms = question_terms(asked.question);
    terms.extend(question_terms(asked.before));
    let wanted = |text: &str| terms.iter().any(|term| term.is_named_in(text));
    let kind = asked.answer_kind();
    let fits = |cell: &str| kind.is_some_and(|kind| kind.is_in(cell));
    let is_headed = |head: &str| kind.is_some_and(|kind| kind.is_headed(head));
    // A column is asked for by its head or by the kind of answer; what the question names itself is no answer.
    let asks_for_column = unit.header.is_some_and(|header| row_cells(header).iter().any(|head| wanted(head)));
    let words = unit.quoted(|head, cell| asks_for_column && (wanted(head) || wanted(cell)));
    if kind.is_none() || (asks_for_column && fits(&words)) {
        return words;
    }
    if unit.header.is_some_and(|header| row_cells(header).into_iter().any(is_headed)) {
        return unit.quoted(|head, cell| wanted(head) || wanted(cell) || is_headed(head));
    }
    unit.quoted(|head, cell| wanted(head) || wanted(cell) || fits(cell))
}

/// What answers a question: the places that it names, else the units that answer it best, from the person's own
/// documents and from standard contracts apart.
pub(super) fn find_quotes<'a>(asked: AskedQuestion<'_>, sources: &[QuotableSource<'a>]) -> QuotesFound<'a> {
    let question = asked.question;
    let has_contracts = sources.iter().any(|source| source.kind != QuotableSourceKind::Document);
    let index = UnitIndex::new(sources);
    if let Some(wanted) = comparison::standard_comparison(question).filter(|_| has_contracts) {
        let mut found = compared_quotes(wanted, asked, sources);
        if wanted != StandardComparison::Same {
            return found;
        }
        if !found.picks.is_empty() {
            add_parts_beside_places(question, &index, &mut found);
            return found;
        }
    }
    let (mut named, rest) = named_places(question);
    if let ([NamedPlace { article: None, clause: Some(clause), .. }], (before, _)) =
        (named.as_slice(), named_places(asked.before))
    {
        // "제2항은요?" after a question about an article.
        let clause = Some(*clause);
        named = before.into_iter().map(|place| NamedPlace { clause, ..place }).collect();
    }
    if !named.is_empty() {
        return quotes_of_places(&named, &rest, &index, question);
    }
    // Of two contracts that are compared, one may have as a clause what the other has as an article.
    let compares_both = compares_with_standard(question, sources);
    let has_both = |found: &QuotesFound<'_>| {
        let is_standard = |pick: &PickedQuote<'_>| pick.source.is_standard();
        found.picks.iter().any(is_standard) && !found.picks.iter().all(is_standard)
    };
    let by_title = || titled(question, &index).filter(|found| !compares_both || has_both(found));
    if let Some(found) = overview(question, sources).or_else(by_title) {
        return found;
    }
    // The standard is a place to look, and no word to look for.
    let rest = without_standard(question);
    let asks = MessageQuestion::new(&rest).asks;
    if let Some(found) = answers_of_several(&asks, &index, Cue::AboutStandard.is_in(question)) {
        return found;
    }
    let whole = AskedQuestion { question: &rest, ..asked };
    let mut found = QuotesFound::default();
    let asks = asks.join("\n");
    let (asked, ranked) = better_ranking(&index, whole, AskedQuestion { question: &asks, ..asked });
    let speaks_of_standard = Cue::AboutStandard.is_in(question) || Cue::Compares.is_in(question);
    answer_own_first(ranked, asked, &index, speaks_of_standard, &mut found);
    found
}

/// Adds what answers in the person's own documents. Standard contracts are asked where the question speaks of them, and where
/// nothing else answers.
fn answer_own_first<'a>(
    ranked: Vec<RankedUnit<'a>>,
    asked: AskedQuestion<'_>,
    index: &UnitIndex<'a>,
    speaks_of_standard: bool,
    found: &mut QuotesFound<'a>,
) {
    let is_standard = |one: &RankedUnit<'_>| index.sources()[one.unit.source].is_standard();
    let (standard, own): (Vec<_>, Vec<_>) = ranked.into_iter().partition(is_standard);
    let before = found.picks.len();
    answer_from(&own, asked, index, found);
    if found.picks.len() == before || speaks_of_standard {
        answer_from(&standard, asked, index, found);
    }
}

/// The most questions of a message that are answered one by one.
const MAX_QUESTIONS: usize = 4;

/// What answers each of several questions of a message, if any of them is answered. A later one may lean on the first.
fn answers_of_several<'a>(
    asks: &[&str],
    index: &UnitIndex<'a>,
    speaks_of_standard: bool,
) -> Option<QuotesFound<'a>> {
    let names_something = |ask: &&str| !question_terms(ask).is_empty() && !Cue::Compares.is_in(ask);
    if !(2..=MAX_QUESTIONS).contains(&asks.len()) || !asks.iter().all(names_something) {
        return None;
    }
    let mut found = QuotesFound::default();
    for (at, ask) in asks.iter().enumerate() {
        let asked = AskedQuestion { question: ask, before: if at == 0 { "" } else { asks[0] } };
        let quoted = found.picks.len();
        answer_own_first(index.rank(asked), asked, index, speaks_of_standard, &mut found);
        if found.picks.len() == quoted {
            found.missing.push((*ask).to_owned());
        }
    }
    (!found.picks.is_empty()).then_some(found)
}

/// The ranking for a message, or for the sentences of it that ask, whichever is more likely to begin with an answer. What
/// is told beside a question may say what it is about, or have nothing to do with it.
fn better_ranking<'a, 'q>(
    index: &UnitIndex<'a>,
    whole: AskedQuestion<'q>,
    asks: AskedQuestion<'q>,
) -> (AskedQuestion<'q>, Vec<RankedUnit<'a>>) {
    let ranked = index.rank(whole);
    if asks.question == whole.question || question_terms(asks.question).is_empty() {
        return (whole, ranked);
    }
    let alone = index.rank(asks);
    if confidence(&alone) > confidence(&ranked) { (asks, alone) } else { (whole, ranked) }
}

/// Whether a question compares and there is a standard contract to compare with.
fn compares_with_standard(question: &str, sources: &[QuotableSource<'_>]) -> bool {
    Cue::Compares.is_in(question) && sources.iter().any(QuotableSource::is_standard)
}

/// A question without the words that name the standard contract.
pub(super) fn without_standard(question: &str) -> String {
    STANDARD.replace_all(question, " ").into_owned()
}

/// Adds the best units of a ranking, if the best is near enough.
fn answer_from<'a>(
    ranked: &[RankedUnit<'a>],
    asked: AskedQuestion<'_>,
    index: &UnitIndex<'a>,
    found: &mut QuotesFound<'a>,
) {
    let [first, others @ ..] = ranked else { return };
    let question = asked.question;
    let sure = confidence(ranked);
    // Of two contracts that are compared each side is told.
    let both = compares_with_standard(question, index.sources());
    if !both && quote_sides(asked, index, found) {
        return;
    }
    // A text that the person gave is about what they ask. There a sentence with all words of the question is near.
    let is_given = index.sources().iter().all(|source| source.cite == SourceCitation::Given);
    let is_near = sure >= if both { EITHER_SIDE } else { NEAR } || is_given && first.has_all_words();
    if !is_near && !both {
        // A question may name the article of a contract that answers it by its title alone.
        let asked_for = squeezed(question);
        let titled = ranked.iter().find(|one| {
            index.sources()[one.unit.source].kind != QuotableSourceKind::Document
                && article_title(one.unit.heading).is_some_and(|title| asked_for.contains(&title))
        });
        titled.into_iter().for_each(|one| found.add_with_lead(&one.unit, index, asked, false));
    }
    if !is_near {
        return;
    }
    let (best, is_sure) = (first, is_sure(ranked));
    if both {
        // Two articles are compared whole if they are short: what differs may stand in another clause.
        let same = |unit: &&QuotableUnit<'_>| {
            unit.article.is_some() && (unit.source, unit.article) == (best.unit.source, best.unit.article)
        };
        if (1..=MAX_QUOTED_UNITS).contains(&index.units().filter(same).count()) {
            index.units().filter(same).for_each(|unit| found.add_unit(unit, index, asked, is_sure));
        } else {
            found.add_unit(&best.unit, index, asked, is_sure);
        }
        return;
    }
    let listed = best.unit.kind == UnitKind::Item && Cue::AsksForList.is_in(question);
    let title = |unit: &QuotableUnit<'_>| index.sources()[unit.source].title;
    if listed || best.unit.leads_to_list() {
        let whole = index.units().filter(|unit| {
            let below = unit.kind == UnitKind::Item
                && unit.lead == best.unit.text
                && title(unit) == title(&best.unit);
            let with = (unit.source, unit.block) == (best.unit.source, best.unit.block)
                && unit.kind == best.unit.kind;
            if listed { with } else { below || unit.text == best.unit.text }
        });
        whole.take(MAX_UNITS_PER_PLACE).for_each(|unit| found.add_unit(unit, index, asked, is_sure));
        return;
    }
    found.add_with_lead(&best.unit, index, asked, is_sure);
    // What answers almost as well may be the answer, but not the next row of the same table, and not beside a sure answer what
    // is no sure one.
    let is_row_beside = |one: &RankedUnit<'_>| {
        one.unit.kind == UnitKind::Row
            && (one.unit.source, one.unit.block, one.unit.kind)
                == (best.unit.source, best.unit.block, best.unit.kind)
    };
    let close = |one: &&RankedUnit<'_>| one.score > best.score - CLOSE && !is_row_beside(one);
    let close = |one: &&RankedUnit<'_>| close(one) && (!is_sure || covers_question(one));
    let others = others.iter().filter(close).take(MAX_QUOTED_UNITS - 1);
    others.for_each(|one| found.add_with_lead(&one.unit, index, asked, is_sure));
}

/// Tells the best unit for each of the two things that a question compares. Returns whether it compares two and one is told.
fn quote_sides<'a>(asked: AskedQuestion<'_>, index: &UnitIndex<'a>, found: &mut QuotesFound<'a>) -> bool {
    let question = asked.question;
    let Some(pair) = PAIR.captures(question).filter(|_| Cue::Compares.is_in(question)) else { return false };
    let sides: Vec<&str> = pair.iter().skip(1).flatten().map(|side| side.as_str()).collect();
    let (mut sides_found, mut missing) = (QuotesFound::default(), Vec::new());
    let mut quoted_units: Vec<(usize, &str)> = Vec::new();
    for (side, other) in sides.iter().zip(sides.iter().rev()) {
        let alone = question.replacen(other, " ", 1);
        let alone = AskedQuestion { question: &alone, before: asked.before };
        let mut ranked = index.rank(alone);
        ranked.retain(|one| !quoted_units.contains(&(one.unit.source, one.unit.text)));
        if confidence(&ranked) >= EITHER_SIDE {
            quoted_units.push((ranked[0].unit.source, ranked[0].unit.text));
            sides_found.add_unit(&ranked[0].unit, index, alone, is_sure(&ranked));
        } else {
            missing.push((*side).to_owned());
        }
    }
    if sides_found.picks.is_empty() {
        return false;
    }
    found.picks.append(&mut sides_found.picks);
    found.missing.append(&mut missing);
    true
}

/// What stands at the places that a question names. Where it asks for something there, the units that tell it.
fn quotes_of_places<'a>(
    named: &[NamedPlace],
    rest: &str,
    index: &UnitIndex<'a>,
    question: &str,
) -> QuotesFound<'a> {
    let mut found = QuotesFound::default();
    let only_standard = Cue::AboutStandard.is_in(question) && !Cue::Compares.is_in(question);
    let (named_documents, rest) = index.split_off_titles(rest);
    let asks = !Cue::AsksForPlace.is_in(&rest) && question_terms(&rest).len() > 1;
    let ranked = index.rank(AskedQuestion { question, before: "" });
    for place in named.iter().take(MAX_PLACES) {
        let mut there: Vec<&RankedUnit<'a>> =
            ranked.iter().filter(|one| place.contains(&one.unit, index)).collect();
        let is_standard = |one: &&RankedUnit<'_>| index.sources()[one.unit.source].is_standard();
        if only_standard && there.iter().any(is_standard) {
            there.retain(is_standard);
        }
        let is_named =
            |one: &&RankedUnit<'_>| named_documents.contains(index.sources()[one.unit.source].document());
        if !Cue::Compares.is_in(question) && there.iter().any(is_named) {
            there.retain(is_named);
        }
        if there.is_empty() {
            found.missing.push(place.to_string());
            continue;
        }
        // A section such as "5. 숙박" is an article where no document has one that calls itself so.
        let is_article = |one: &&RankedUnit<'_>| !named_articles(one.unit.heading).is_empty();
        if question_terms(&rest).is_empty() && there.iter().any(is_article) {
            there.retain(is_article);
        }
        if asks && place.clause.is_none() && there.len() > 2 {
            let best = there[0].score;
            there.retain(|one| one.score > best - CLOSE);
            there.truncate(3);
        }
        let wanted: Vec<(usize, &str)> = there.iter().map(|one| (one.unit.source, one.unit.text)).collect();
        let mut quoted: BTreeMap<(&str, Option<ArticleNumber>), usize> = BTreeMap::new();
        let mut units: Vec<&QuotableUnit<'a>> =
            index.units().filter(|unit| wanted.contains(&(unit.source, unit.text))).collect();
        if place.last.is_some() {
            // A search gives the articles of a range in its own order.
            let document = |unit: &QuotableUnit<'_>| {
                let title = index.sources()[unit.source].document();
                index.sources().iter().position(|source| source.document() == title)
            };
            units.sort_by_key(|unit| (document(unit), unit.article));
        }
        for unit in units {
            let article = unit.article.filter(|_| place.last.is_some());
            let count = quoted.entry((index.sources()[unit.source].document(), article)).or_default();
            *count += 1;
            if *count <= MAX_UNITS_PER_PLACE {
                found.add_unit(unit, index, AskedQuestion::default(), true);
            }
        }
    }
    add_parts_beside_places(question, index, &mut found);
    found
}

/// Adds what answers the parts of a question that stand beside the places it names.
fn add_parts_beside_places<'a>(question: &str, index: &UnitIndex<'a>, found: &mut QuotesFound<'a>) {
    for part in beside_places(question) {
        let asked = AskedQuestion { question: part, before: "" };
        let ranked = index.rank(asked);
        match confidence(&ranked) >= NEAR {
            true => found.add_unit(&ranked[0].unit, index, asked, true),
            false => found.missing.push(part.to_owned()),
        }
    }
}

/// What a question that names places asks beside them: its other sentences, where they stand alone.
pub(super) fn beside_places(question: &str) -> Vec<&str> {
    let alone = |part: &&str| {
        named_places(part).0.is_empty()
            && intents_of(part).iter().all(|wish| matches!(wish, QuestionIntent::Title(_)))
            && asks_or_requests(part)
            && !question_terms(part).is_empty()
            && !Cue::PointsBack.is_in(part)
            && !Cue::Compares.is_in(part)
            && !Cue::WantsSummary.is_in(part)
    };
    if named_places(question).0.is_empty() {
        return Vec::new();
    }
    let parts = sentences(question).into_iter().flat_map(|sentence| sentence.split(" 그리고 "));
    parts.map(str::trim).filter(alone).collect()
}

/// The unit that shares most words with a question, the first of equals; none if all share little. For short texts, such as
/// what a person said.
pub(super) fn most_shared<'a>(question: &str, sources: &[QuotableSource<'a>]) -> Option<&'a str> {
    let mut best: Option<(f64, &'a str)> = None;
    for one in UnitIndex::new(sources).share_words(question) {
        let more = best.is_none_or(|(most, _)| one.0 > most);
        best = if one.0 >= MIN_SHARED_WORDS && more { Some(one) } else { best };
    }
    best.map(|(_, text)| text)
}

/// The share of the words of a question that a short text holds.
pub(super) fn shared_words(question: &str, text: &str) -> f64 {
    let source = QuotableSource {
        title: "",
        text,
        kind: QuotableSourceKind::Document,
        cite: SourceCitation::Tool(""),
    };
    UnitIndex::new(&[source]).share_words(question).into_iter().map(|(share, _)| share).fold(0.0, f64::max)
}

/// The share of the words of a question that a short text must hold.
const MIN_SHARED_WORDS: f64 = 0.4;

pub(super) fn letters(text: &str) -> String {
    text.chars().filter(|char| char.is_alphabetic()).flat_map(char::to_lowercase).collect()
}

/// The first unit under each heading of the document that a question names, where it asks for that document as a
/// whole: "회사 휴가 정책이 뭐야?" asks for what the 휴가 규정 rules, and not for the words that introduce it.
fn overview<'a>(question: &str, sources: &[QuotableSource<'a>]) -> Option<QuotesFound<'a>> {
    if !Cue::AsksForRules.is_in(question) {
        return None;
    }
    let subject: Vec<_> =
        question_terms(question).into_iter().filter(|term| !Cue::NamesRules.is_in(&term.stem)).collect();
    let of_subject = |source: &&QuotableSource<'_>| {
        source.title.contains(HEADING_SEPARATOR)
            && subject.iter().all(|term| term.is_named_in(source.document()))
    };
    let mut found = QuotesFound::default();
    for source in sources.iter().filter(of_subject).take(MAX_UNITS_PER_PLACE) {
        let first = quotable(source).next();
        first.into_iter().for_each(|words| found.add(words, *source, true));
    }
    (!subject.is_empty() && found.picks.len() > 1).then_some(found)
}

/// The title in the heading of an article, without spaces: `제8조(지체 상금)` has 지체상금.
fn article_title(heading: &str) -> Option<String> {
    let (_, title) = heading.rsplit(HEADING_SEPARATOR).next()?.trim().strip_suffix(')')?.split_once('(')?;
    Some(squeezed(title)).filter(|title| title.chars().count() > 1)
}

/// The articles whose titles a question names: "비밀유지 조항 보여줘".
fn titled<'a>(question: &str, index: &UnitIndex<'a>) -> Option<QuotesFound<'a>> {
    let titles = article_titles(question);
    let mut found = QuotesFound::default();
    for title in titles.iter().map(|title| squeezed(title)) {
        let named = |unit: &&QuotableUnit<'_>| article_title(unit.heading).as_ref() == Some(&title);
        let there = index.units().filter(named).take(MAX_UNITS_PER_PLACE);
        there.for_each(|unit| found.add_unit(unit, index, AskedQuestion::default(), true));
    }
    (!found.picks.is_empty()).then_some(found)
}

/// Everything of a source that may be quoted, in order.
pub(super) fn quotable<'a>(source: &QuotableSource<'a>) -> impl Iterator<Item = String> + use<'a> {
    split_units(source, 0).into_iter().map(|unit| unit.quoted(|_, _| false))
}
