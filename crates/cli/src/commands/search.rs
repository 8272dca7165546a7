//! `doran search`: searches all documents without a model, and shows why each passage matched.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::ops::Range;

use doran_agents::samples;
use doran_retrieval::{
    DocumentFilter, DocumentId, DocumentKind, Highlight, Hit, Language, LibraryError, highlights,
    is_collection_name, localize_article_numbers, match_reasons,
};
use serde_json::json;

use crate::args::parse_count;
use crate::commands::ingest::parse_document_kind;
use crate::config::Config;
use crate::document_client::DocumentClient;
use crate::output::{TerminalOutput, bilingual};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran search 육아휴직
  doran search --limit 10 --collection 표준 손해배상
  doran search --kind contract --json 위약금")]
pub(crate) struct SearchArgs {
    /// Search query · 검색어
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Maximum number of results · 최대 결과 수
    #[arg(long, value_name = "N", default_value = "5", value_parser = parse_count)]
    limit: NonZeroUsize,
    /// Only in this collection · 이 컬렉션에서만
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Only in this document; can be repeated · 이 문서에서만. 여러 번 지정할 수 있습니다
    #[arg(long, value_name = "ID")]
    document: Vec<String>,
    /// Only documents of this kind: general, contract or standard:KIND · 이 종류의 문서만: general, contract, standard:종류
    #[arg(long, value_name = "KIND", value_parser = parse_document_kind)]
    kind: Vec<DocumentKind>,
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,
}

/// Searches and prints the results.
pub(crate) async fn run(args: &SearchArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    if let Some(name) = args.collection.as_ref().filter(|name| !is_collection_name(name)) {
        let wrong = LibraryError::BadCollection;
        let ko = wrong.message_ko();
        return Err(bilingual!("컬렉션 이름 `{name}`: {ko}", "collection `{name}`: {wrong}").into());
    }
    let words = args.words.join(" ");
    if words.trim().is_empty() {
        return Err(bilingual!("검색어를 입력하세요", "the search query is empty").into());
    }
    let client = DocumentClient::open(config, false).await?;
    if let DocumentClient::Local(app) = &client
        && let Some(waiting) = app.pending_documents_message()
    {
        output.print_message(&waiting);
    }
    let filter = DocumentFilter {
        collection: args.collection.clone(),
        documents: args.document.iter().map(DocumentId::new).collect(),
        kinds: args.kind.clone(),
    };
    let hits = client.retrieve(&words, args.limit.get(), filter).await?;
    if hits.is_empty() {
        check_filter_exists(args, &client).await?;
        output.print_message(&bilingual!(
            "`{words}`에 맞는 문단이 없습니다. 다른 말로 찾거나 `doran ingest`로 문서를 넣으세요",
            "no passage fits `{words}`; try other words, or add documents with `doran ingest`"
        ));
    }
    let bold = output.colour && std::io::stdout().is_terminal();
    let mut text = String::new();
    for (hit, number) in hits.iter().zip(1..) {
        let why = highlights(&words, &hit.passage.text);
        if args.json {
            text.push_str(&format!("{}\n", hit_json(hit, &match_reasons(&words, &hit.passage), &why)));
        } else {
            text.push_str(&format_hit(
                number,
                hit,
                &match_reasons(&words, &hit.passage),
                &why,
                (bold, output.language),
            ));
        }
    }
    output.print_data(&text)
}

/// Rejects a collection or a document that does not exist.
async fn check_filter_exists(args: &SearchArgs, client: &DocumentClient) -> anyhow::Result<()> {
    if args.collection.is_none() && args.document.is_empty() {
        return Ok(());
    }
    let known = client.list().await?;
    let is_known =
        |id: &&String| samples::is_sample(id) || known.iter().any(|status| status.id.as_str() == *id);
    if let Some(id) = args.document.iter().find(|id| !is_known(id)) {
        return Err(bilingual!(
            "문서 `{id}`이(가) 없습니다. `doran documents list`로 목록을 확인하세요",
            "there is no document `{id}`; `doran documents list` shows all"
        )
        .into());
    }
    match &args.collection {
        Some(name) if known.iter().all(|status| status.collection != *name) => Err(bilingual!(
            "컬렉션 `{name}`이(가) 없습니다. `doran documents list`로 목록을 확인하세요",
            "there is no collection `{name}`; `doran documents list` shows all"
        )
        .into()),
        _ => Ok(()),
    }
}

fn hit_json(hit: &Hit, reasons: &[String], why: &[Highlight]) -> serde_json::Value {
    let passage = &hit.passage;
    json!({
        "passage": passage.id, "document": passage.document,
        "title": localize_article_numbers(&passage.title, &passage.title), "text": passage.text,
        "page": passage.page,
        "article": passage.article.map(|article| localize_article_numbers(&article.to_string(), &passage.title)),
        "start": passage.range.start, "end": passage.range.end, "score": hit.score, "why": why,
        "reasons": reasons, "sample": samples::is_sample(passage.document.as_str()),
    })
}

fn format_hit(
    number: usize,
    hit: &Hit,
    reasons: &[String],
    why: &[Highlight],
    (bold, language): (bool, Language),
) -> String {
    let passage = &hit.passage;
    let page = passage.page.map(|page| format!("  p.{page}")).unwrap_or_default();
    let sample = if samples::is_sample(passage.document.as_str()) {
        language.pick("  (예시 문서)", "  (sample document)")
    } else {
        ""
    };
    let words = highlight_matches(&passage.text, why, bold).replace('\n', "\n   ");
    let title = localize_article_numbers(&passage.title, &passage.title);
    let mut text = format!("{number}  {:.2}  {title}{page}{sample}\n   {words}\n", hit.score);
    // A semantic match has no words to show.
    if !reasons.is_empty() {
        text.push_str(&format!("   ↳ {}\n", localize_article_numbers(&reasons.join(", "), &passage.title)));
    }
    text
}

/// The text with the matches in bold, or in brackets if bold is not available.
fn highlight_matches(text: &str, why: &[Highlight], bold: bool) -> String {
    let (before, after) = if bold { ("\u{1b}[1m", "\u{1b}[0m") } else { ("«", "»") };
    let mut ranges: Vec<Range<usize>> = why.iter().flat_map(|found| found.ranges.iter().cloned()).collect();
    ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        if range.start < at {
            continue;
        }
        let (Some(plain), Some(found)) = (text.get(at..range.start), text.get(range.clone())) else {
            continue;
        };
        out.push_str(&format!("{plain}{before}{found}{after}"));
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_of_an_english_document_are_counted_in_english() {
        let passage =
            doran_retrieval::Passage { title: "Agreement › 제3조(Payment)".into(), ..Default::default() };
        let hit = Hit { passage, score: 1.0 };
        let line = |question: &str| {
            format_hit(1, &hit, &match_reasons(question, &hit.passage), &[], (false, Language::English))
        };
        let text = line("payments");
        assert!(text.contains("  Agreement › Article 3 (Payment)\n"), "{text}");
        assert!(text.ends_with("   ↳ Payment\n"), "the heading says why: {text}");
        assert!(!line("money").contains('↳'), "nothing is said where nothing is known");
    }

    #[allow(clippy::single_range_in_vec_init, reason = "one place is a list of places too")]
    #[test]
    fn what_was_found_is_marked_once() {
        let found =
            |term: &str, ranges: &[Range<usize>]| Highlight { term: term.into(), ranges: ranges.to_vec() };
        let why = [found("나", &[3..6]), found("가나", &[0..6, 7..13])];
        assert_eq!(highlight_matches("가나 가나다", &why, false), "«가나» «가나»다");
        assert_eq!(highlight_matches("없다", &[], false), "없다");
    }
}
