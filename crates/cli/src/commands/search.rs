//! `doran search`: looks through all documents, without any model, and shows why each passage was found.

use std::io::IsTerminal;

use doran_retrieval::{Filter, Hit, Question, Retriever, Tenant};
use serde_json::json;

use crate::assemble;
use crate::config::Config;
use crate::output::{Output, both};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to look for · 찾을 말
    #[arg(value_name = "WORDS")]
    words: String,
    /// Most to show · 보여 줄 최대 수
    #[arg(long, value_name = "N", default_value_t = 5)]
    limit: usize,
    /// Only in this collection · 이 모음에서만
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Print one JSON object a line · 한 줄에 JSON 하나씩 출력
    #[arg(long)]
    json: bool,
}

/// Looks and prints.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let house = assemble::house(config).await?;
    let mut question = Question::new(Tenant::new(house.tenant.as_str()), &args.words, args.limit.min(100));
    question.filter = Filter { collection: args.collection.clone(), ..Filter::default() };
    let hits = house.index.retrieve(&question).await?;
    if hits.is_empty() {
        let words = &args.words;
        output.tell(&both!(
            "`{words}`에 맞는 문단이 없습니다. 다른 말로 찾거나 `doran ingest`로 문서를 넣으세요",
            "no passage fits `{words}`; try other words, or add documents with `doran ingest`"
        ));
    }
    let bold = output.colour && std::io::stdout().is_terminal();
    let mut text = String::new();
    for (hit, number) in hits.iter().zip(1..) {
        let why = shared(&args.words, &hit.passage.text);
        if args.json {
            text.push_str(&format!("{}\n", as_json(hit, &why)));
        } else {
            text.push_str(&shown(number, hit, &why, bold));
        }
    }
    output.data(&text)
}

fn as_json(hit: &Hit, why: &[String]) -> serde_json::Value {
    let passage = &hit.passage;
    json!({
        "passage": passage.id, "document": passage.document, "title": passage.title, "text": passage.text,
        "page": passage.page, "article": passage.article.map(|article| article.to_string()),
        "start": passage.range.start, "end": passage.range.end, "score": hit.score, "why": { "terms": why },
    })
}

fn shown(number: usize, hit: &Hit, why: &[String], bold: bool) -> String {
    let passage = &hit.passage;
    let page = passage.page.map(|page| format!("  p.{page}")).unwrap_or_default();
    let words = marked(&passage.text, why, bold).replace('\n', "\n   ");
    format!("{number}  {:.2}  {}{page}\n   {words}\n   ↳ {}\n", hit.score, passage.title, why.join(", "))
}

/// The words of a question that a passage has, each as far as it has them: 연차휴가는 in 연차휴가를 is 연차휴가.
fn shared(question: &str, text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let mut found: Vec<String> = Vec::new();
    for word in question.to_lowercase().split(|char: char| !char.is_alphanumeric()) {
        let chars: Vec<char> = word.chars().collect();
        let least = if word.is_ascii() { 3.min(chars.len()) } else { 2 };
        let prefixes = (least..=chars.len()).rev().map(|length| chars[..length].iter().collect::<String>());
        if let Some(part) = prefixes.filter(|part| !part.is_empty()).find(|part| text.contains(part.as_str()))
            && !found.contains(&part)
        {
            found.push(part);
        }
    }
    found
}

/// The text with these words in bold, or in brackets where bold cannot be shown.
fn marked(text: &str, words: &[String], bold: bool) -> String {
    let (before, after) = if bold { ("\u{1b}[1m", "\u{1b}[0m") } else { ("«", "»") };
    let lower = text.to_lowercase();
    // Letters whose small form has another length would shift every place after them.
    if lower.len() != text.len() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let here = words.iter().filter(|word| lower[at..].starts_with(word.as_str())).max_by_key(|word| word.len());
        match here {
            Some(word) => {
                out.push_str(&format!("{before}{}{after}", &text[at..at + word.len()]));
                at += word.len();
            }
            None => {
                let Some(char) = text[at..].chars().next() else { break };
                out.push(char);
                at += char.len_utf8();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_were_found_are_marked() {
        let why = shared("연차휴가는 VPN 며칠?", "연차휴가를 vpn으로 신청한다.");
        assert_eq!(why, ["연차휴가", "vpn"]);
        assert_eq!(marked("연차휴가를 VPN으로", &why, false), "«연차휴가»를 «VPN»으로");
        assert_eq!(marked("없다", &why, false), "없다");
    }
}
