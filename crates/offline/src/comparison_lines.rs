//! How a comparison with a standard contract is told: articles on one subject beside each other, or lists of what is missing,
//! beyond the standard, and different.

use std::collections::BTreeMap;

use doran_agents::agents::contract::ComparisonRemark;

use super::compared_quotes::{answer_to_each_other, article_heading};
use super::phrasing::FixedPhrase;
use super::quotes::{ComparisonExtent, PickedQuote};
use super::turn::OfflineTurn;
use super::units::{QuotableSource, SourceCitation};

/// The quotes of one article.
type QuotedArticle<'p, 'a> = (&'p QuotableSource<'a>, u32, Vec<&'p str>);

/// What a comparison with the standard found: the articles on a subject beside each other, then the articles that are missing,
/// those beyond the standard, those that differ.
pub(super) fn comparison_lines(
    turn: &OfflineTurn<'_>,
    picks: &[&PickedQuote<'_>],
    extent: ComparisonExtent,
) -> Vec<String> {
    let mut articles: Vec<QuotedArticle<'_, '_>> = Vec::new();
    for pick in picks {
        let SourceCitation::Number(number) = pick.source.cite else { continue };
        match articles.iter_mut().find(|(_, known, _)| *known == number) {
            Some((_, _, words)) => words.push(&pick.words),
            None => articles.push((&pick.source, number, vec![&pick.words])),
        }
    }
    let mut lines = Vec::new();
    let mut lists: BTreeMap<(u8, String), Vec<String>> = BTreeMap::new();
    for own in &articles {
        let (order, beside, phrase) = match ComparisonRemark::of_title(own.0.title) {
            Some(ComparisonRemark::NotIn(contract)) if own.0.is_standard() => {
                (0, contract, FixedPhrase::MissingArticles)
            }
            Some(ComparisonRemark::NotIn(standard)) => (1, standard, FixedPhrase::ExtraArticles),
            Some(ComparisonRemark::DiffersFrom { title, .. }) => (2, title, FixedPhrase::ChangedArticles),
            Some(ComparisonRemark::SameAs { title, .. }) => (3, title, FixedPhrase::SameArticles),
            // It is told beside the article that it answers to.
            Some(ComparisonRemark::AnswersTo { .. }) | None => continue,
        };
        let other = articles.iter().find(|other| answer_to_each_other(own.0, other.0));
        if extent == ComparisonExtent::Subject && order > 1 {
            lines.extend(article_lines(
                turn,
                own,
                [FixedPhrase::QuoteContractArticle, FixedPhrase::QuoteMore],
            ));
            let phrases = [FixedPhrase::QuoteStandardArticle, FixedPhrase::QuoteMore];
            lines.extend(other.into_iter().flat_map(|other| article_lines(turn, other, phrases)));
            if order == 3 {
                lines.push(FixedPhrase::SameWords.filled(turn.language, &[]));
            }
            continue;
        }
        let listed = lists
            .entry((order, beside.to_owned()))
            .or_insert_with(|| vec![phrase.filled(turn.language, &[beside])]);
        listed.extend(article_lines(turn, own, [FixedPhrase::ListedArticle, FixedPhrase::ListedMore]));
        let phrases = [FixedPhrase::ListedStandard, FixedPhrase::ListedMore];
        listed.extend(other.into_iter().flat_map(|other| article_lines(turn, other, phrases)));
    }
    lines.extend(lists.into_values().flatten());
    lines
}

/// The lines of an article: the first with its heading.
fn article_lines(
    turn: &OfflineTurn<'_>,
    (source, number, words): &QuotedArticle<'_, '_>,
    [first, more]: [FixedPhrase; 2],
) -> Vec<String> {
    let (heading, number) = (article_heading(source), number.to_string());
    let line = |(at, words): (usize, &&str)| match at {
        0 => first.filled(turn.language, &[heading, words, &number]),
        _ => more.filled(turn.language, &[words, &number]),
    };
    words.iter().enumerate().map(line).collect()
}
