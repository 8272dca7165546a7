//! Comparisons of contracts with standard contracts: whether a question asks for one, and of what.

use doran_agents::agents::contract::{StandardComparison, is_of_standard};
use doran_retrieval::contract::{ArticleReference, find_article_references};
use doran_retrieval::is_question_word;

use super::cues::Cue;
use super::places::named_articles;
use super::ranking::question_terms;
use super::text::{without_particle, words};

/// How a question lays contracts beside their standards: what a contract lacks, what it has beyond its standard, both as a
/// whole, or one subject of them.
pub(super) fn standard_comparison(question: &str) -> Option<StandardComparison> {
    let lower = question.to_lowercase();
    let named = !named_articles(question).is_empty();
    // 조 alone is an article; a part of a word, as in 조건, is none.
    let has_word = |cue: Cue| words(&lower).iter().any(|word| cue.is_in(without_particle(word)));
    let names_provisions = has_word(Cue::NamesProvisions);
    if !named && Cue::SaysMissing.is_in(&lower) && names_provisions {
        return Some(StandardComparison::Missing);
    }
    let subject = subject_words(question);
    if !Cue::AboutStandard.is_in(&lower) {
        // What stands in one contract only does so beside its standard.
        let only = names_provisions && !named && subject.is_empty() && Cue::NamesContract.is_in(&lower);
        return lacking_side(&lower).filter(|side| only && side.says_only).map(|side| side.comparison);
    }
    if names_provisions || has_word(Cue::AsksForAnything) {
        if Cue::BeyondStandard.is_in(&lower) {
            return Some(StandardComparison::Extra);
        }
        if Cue::SaysMissing.is_in(&lower) {
            return Some(StandardComparison::Missing);
        }
        if let Some(side) = lacking_side(&lower) {
            return Some(side.comparison);
        }
    }
    if !Cue::Compares.is_in(&lower) && !Cue::BesideStandard.is_in(&lower) {
        return None;
    }
    match named_references(question).as_slice() {
        [] if subject.is_empty() => Some(StandardComparison::All),
        // Whoever names an article on either side knows which ones to compare.
        all if all.iter().any(|(_, standard)| *standard) && all.iter().any(|(_, standard)| !standard) => None,
        _ => Some(StandardComparison::Same),
    }
}

/// What a comparison is about, each as a standard contract is asked for it: articles by number, those of the standard with its
/// name, or else the words of a subject.
pub(super) fn compared_subjects(question: &str) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    for (reference, of_standard) in named_references(question) {
        let side = if of_standard { "표준계약서 " } else { "" };
        match reference.last {
            Some(_) => named.extend(reference.counted_articles().map(|article| format!("{side}{article}"))),
            None => named.push(format!("{side}{reference}")),
        }
    }
    if !named.is_empty() {
        return named;
    }
    let subject = subject_words(question).join(" ");
    if subject.is_empty() { Vec::new() } else { vec![subject] }
}

/// The articles that a question names, and whether each is one of the standard.
fn named_references(question: &str) -> Vec<(ArticleReference, bool)> {
    let mut end = 0;
    let mut named = Vec::new();
    for reference in find_article_references(question) {
        let before = &question[end..reference.range.start];
        let of_standard = is_of_standard(before, &question[reference.range.end..]);
        end = reference.range.end;
        if reference.law.is_none() && reference.appendix.is_none() {
            named.push((reference, of_standard));
        }
    }
    named
}

/// What a contract is said to have alone, or to lack.
struct LackingSide {
    comparison: StandardComparison,
    says_only: bool,
}

/// Whose the word beside is: "표준에 없는" or "우리 계약서에 없는", "표준에만 있는" or "우리 계약서에만 있는", "only in ours".
fn lacking_side(lower: &str) -> Option<LackingSide> {
    let found = Cue::OnOneSide.captures(lower)?;
    let whole = found.get(0)?;
    let before = &lower[..whole.start()];
    let own =
        |text: &str| Cue::OwnContract.all(text).last().and_then(|own| own.get(0)).map(|own| own.start());
    let (says_only, of_standard) = match found.get(2) {
        Some(_) => {
            (true, lower[whole.end()..].split_whitespace().take(3).any(|word| word.starts_with("standard")))
        }
        None => (found.get(1).is_some(), before.rfind("표준") > own(before)),
    };
    let comparison =
        if of_standard == says_only { StandardComparison::Missing } else { StandardComparison::Extra };
    Some(LackingSide { comparison, says_only })
}

/// The words of a question that name something in contracts. The words before 계약서 or "agreement" are the name of one; a
/// standard is only called by its kind.
fn subject_words(question: &str) -> Vec<&str> {
    let bare = |word: &'_ str| word.trim_matches(|char: char| !char.is_alphanumeric()).to_lowercase();
    let all: Vec<&str> = question.split_whitespace().collect();
    let mut rest: Vec<&str> = Vec::new();
    for (at, word) in all.iter().enumerate() {
        let lower = bare(word);
        // 계약 before a noun is a part of it: 계약 기간, 계약의 해지.
        let next = all.get(at + 1).map(|next| bare(next));
        let is_front = Cue::ContractAsFront.is_in(&lower)
            && next.is_some_and(|next| !is_light(&next) && !Cue::NamesContract.is_in(&next));
        if !Cue::NamesContract.is_in(&lower) || is_front {
            rest.push(word);
        } else if !Cue::AboutStandard.is_in(&lower) && !Cue::NamesStandard.is_in(&lower) {
            let is_part = |word: &&str| {
                let lower = bare(word);
                without_particle(&lower) == lower && !is_light(&lower) && !is_question_word(&lower)
            };
            while rest.last().is_some_and(is_part) {
                rest.pop();
            }
        }
    }
    rest.retain(|word| !is_light(&bare(word)));
    let trimmed = |word: &'_ str| -> usize {
        word.len() - word.trim_start_matches(|char: char| !char.is_alphanumeric()).len()
    };
    rest.into_iter()
        .map(|word| {
            without_particle(word[trimmed(word)..].trim_end_matches(|char: char| !char.is_alphanumeric()))
        })
        .collect()
}

/// Whether a word in lower case only says that and how contracts are compared.
fn is_light(word: &str) -> bool {
    let bare = without_particle(word);
    if Cue::Compares.is_in(word)
        || Cue::OwnContract.is_in(bare)
        || [word, bare].iter().any(|word| Cue::ComparesWholes.is_in(word) || Cue::AsksForAnything.is_in(word))
    {
        return true;
    }
    // Keyword search takes 해지 and 하자 for verbs.
    !Cue::AboutContracts.is_in(bare)
        && question_terms(word).iter().all(|term| Cue::ComparesWholes.is_in(&term.stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_of_wholes_or_of_what_it_names() {
        for (question, expected) in [
            ("표준계약서와 비교해줘", "all"),
            ("표준계약서와 다른 조항은?", "all"),
            ("소프트웨어 개발 용역계약서는 표준과 어떤 점이 달라?", "all"),
            ("Which clauses differ from the standard?", "all"),
            ("Compare the consulting services agreement with the standard", "all"),
            ("이 계약서에만 있는 조항은?", "extra"),
            ("Which clauses are only in our contract?", "extra"),
            ("표준계약서에만 있는 조항은?", "missing"),
            ("Which articles are only in the standard contract?", "missing"),
            ("표준계약서와 비교해서 우리 계약서에 없는 조항은?", "missing"),
            ("해지 조항을 표준계약서와 비교해 주세요", "same 해지"),
            ("하자는 표준계약서와 어떻게 다른가요?", "same 하자"),
            ("검수 기간 표준이랑 비교", "same 검수 기간"),
            ("계약 기간이 표준계약서와 같은가요?", "same 계약 기간"),
            ("잔금 지급 기한 표준계약서랑 달라?", "same 잔금 지급 기한"),
            ("손해배상 한도를 우리 계약서와 표준계약서에서 비교해줘", "same 손해배상 한도"),
            ("Compare the late penalty with the standard contract", "same late penalty"),
            ("How does the liability differ from the standard?", "same liability"),
            ("제9조가 표준계약서와 어떻게 다른가요?", "same 제9조"),
            ("제5조와 제7조를 표준계약서와 비교해줘", "same 제5조 + 제7조"),
            ("표준계약서 제9조를 우리 계약서와 비교해줘", "same 표준계약서 제9조"),
            ("제5조를 표준계약서 제5조와 비교해줘", ""),
            ("표준계약서의 검수 기간은 며칠이야?", ""),
            ("이 계약서에 없는 조항을 추가하려면?", ""),
            ("연차와 병가는 어떻게 다른가요?", ""),
        ] {
            let subjects = compared_subjects(question).join(" + ");
            let found = standard_comparison(question).map(|found| match found {
                StandardComparison::Same => format!("same {subjects}"),
                other => other.as_str().to_owned(),
            });
            assert_eq!(found.unwrap_or_default(), expected, "{question}");
        }
    }
}
