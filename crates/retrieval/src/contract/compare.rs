//! Compares a contract with its standard contract: which articles correspond, which are missing, which were added.

use serde::{Deserialize, Serialize};

use super::similarity::{NormalizedTitle, TextVectors};
use super::{Contract, ContractArticle};
use crate::passage::{ArticleNumber, Document};

/// Articles with a lower similarity do not correspond.
const MIN_ARTICLE_SIMILARITY: f64 = 0.34;

/// The maximum number of articles of one side that are compared. The rest counts as missing or extra.
const MAX_COMPARED_ARTICLES: usize = 1000;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContractComparison {
    /// Articles of the standard with the corresponding articles of the contract, in the order of the standard.
    pub matched: Vec<ArticleMatch>,
    /// Articles of the standard without a corresponding article.
    pub missing: Vec<ArticleNumber>,
    /// Articles of the contract that the standard does not have.
    pub extra: Vec<ArticleNumber>,
}

/// Two articles that correspond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArticleMatch {
    /// The article of the standard.
    pub standard: ArticleNumber,
    /// The article of the contract.
    pub own: ArticleNumber,
    /// Their similarity, from 0 to 1.
    pub score: f64,
    /// The similarity of their titles.
    pub title: f64,
    /// The similarity of their texts.
    pub text: f64,
}

/// Compares a contract with a standard contract, each with the document it was parsed from. Each article corresponds to
/// at most one; the most similar ones are paired first.
pub fn compare_contracts(
    standard: (&Contract, &Document),
    own: (&Contract, &Document),
) -> ContractComparison {
    let sides = [standard, own].map(|(contract, document)| {
        let articles: Vec<&ContractArticle> = contract.articles.iter().take(MAX_COMPARED_ARTICLES).collect();
        let bodies: Vec<&str> = articles
            .iter()
            .map(|article| document.text.get(article.body.clone()).unwrap_or_default())
            .collect();
        let titles: Vec<NormalizedTitle> =
            articles.iter().map(|article| NormalizedTitle::new(&article.title)).collect();
        (articles, bodies, titles)
    });
    let [(standards, standard_texts, standard_titles), (owns, own_texts, own_titles)] = sides;
    let texts = TextVectors::new(standard_texts.into_iter().chain(own_texts));
    let mut pairs = Vec::new();
    for (i, left) in standards.iter().enumerate() {
        for (j, right) in owns.iter().enumerate() {
            let title = standard_titles[i].similarity(&own_titles[j]);
            let text = texts.similarity(i, standards.len() + j);
            let untitled = standard_titles[i].is_empty() || own_titles[j].is_empty();
            let score = if untitled { text } else { 0.5 * title + 0.5 * text };
            if score >= MIN_ARTICLE_SIMILARITY {
                let pair = ArticleMatch { standard: left.number, own: right.number, score, title, text };
                pairs.push((i, j, pair));
            }
        }
    }
    // Equal scores keep the order of the standard, so the result is deterministic.
    pairs.sort_by(|(_, _, left), (_, _, right)| right.score.total_cmp(&left.score));
    let (mut taken, mut used) = (vec![false; standards.len()], vec![false; owns.len()]);
    let mut matched = Vec::new();
    for (i, j, pair) in pairs {
        if !taken[i] && !used[j] {
            (taken[i], used[j]) = (true, true);
            matched.push((i, pair));
        }
    }
    matched.sort_by_key(|(i, _)| *i);
    let left_over = |articles: &[&ContractArticle], taken: &[bool], all: &Contract| {
        let free =
            articles.iter().zip(taken).filter(|(_, taken)| !**taken).map(|(article, _)| article.number);
        free.chain(all.articles.iter().skip(MAX_COMPARED_ARTICLES).map(|article| article.number)).collect()
    };
    ContractComparison {
        matched: matched.into_iter().map(|(_, pair)| pair).collect(),
        missing: left_over(&standards, &taken, standard.0),
        extra: left_over(&owns, &used, own.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_meet_by_matter_not_by_number() {
        let standard = Document::new(
            "s",
            "표준",
            "제1조(목적) 권리와 의무를 정한다.\n제2조(대가의 지급) 갑은 을에게 대가를 30일 안에 지급한다.\n제3조(비밀유지) 비밀을 누설하지 않는다.\n제4조(분쟁해결) 관할 법원은 서울중앙지방법원으로 한다.",
        );
        let own = Document::new(
            "o",
            "우리",
            "제1조(목적) 권리와 의무를 정한다.\n제2조(비밀의 유지) 비밀을 누설하여서는 안 된다.\n제3조(용역 대금) 갑은 을에게 대가를 60일 안에 지급한다.\n제4조(지체상금) 하루에 천분의 일을 낸다.",
        );
        let (left, right) = (Contract::parse(&standard), Contract::parse(&own));
        let found = compare_contracts((&left, &standard), (&right, &own));
        let shown: Vec<String> =
            found.matched.iter().map(|pair| format!("{}={}", pair.standard, pair.own)).collect();
        assert_eq!(shown, ["제1조=제1조", "제2조=제3조", "제3조=제2조"]);
        assert_eq!(found.missing, [ArticleNumber { number: 4, branch: 0 }]);
        assert_eq!(found.extra, [ArticleNumber { number: 4, branch: 0 }]);
        assert!((found.matched[0].score - 1.0).abs() < 1e-9);
    }
}
