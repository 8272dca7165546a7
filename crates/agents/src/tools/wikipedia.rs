//! `search_wikipedia`: the beginnings of articles, from the Korean Wikipedia first, then from the English one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use doran_retrieval::Language;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::egress::{Egress, EgressError, EgressRequest};
use super::text_cleaning::truncate_with_note;
use super::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSideEffect, names};

/// Where the Korean Wikipedia is.
pub(crate) const WIKIPEDIA_KO_URL: &str = "https://ko.wikipedia.org";
/// Where the English Wikipedia is.
pub(crate) const WIKIPEDIA_EN_URL: &str = "https://en.wikipedia.org";
/// How many articles are shown, and how much of each.
const MAX_ARTICLES: usize = 3;
const MAX_EXTRACT_BYTES: usize = 4000;

/// The tool.
#[derive(Debug)]
pub struct SearchWikipedia {
    info: ToolInfo,
    egress: Arc<Egress>,
    ko: Url,
    en: Url,
}

#[derive(Debug, Deserialize)]
struct WikipediaArguments {
    query: String,
    #[serde(default)]
    language: Option<Language>,
}

#[derive(Debug, Deserialize)]
struct WikipediaResponse {
    #[serde(default)]
    query: WikipediaPages,
}

#[derive(Debug, Default, Deserialize)]
struct WikipediaPages {
    #[serde(default)]
    pages: Vec<WikipediaPage>,
}

#[derive(Debug, Deserialize)]
struct WikipediaPage {
    title: String,
    #[serde(default)]
    index: i64,
    #[serde(default)]
    extract: String,
    #[serde(default)]
    fullurl: String,
}

impl SearchWikipedia {
    /// One that asks the Korean and the English Wikipedia at these places.
    pub fn new(egress: Arc<Egress>, ko: Url, en: Url) -> Self {
        let description = "Searches Wikipedia, the Korean one first and then the English one, and gives the beginnings of the best \
            articles with their addresses. Use it for facts about people, places, history and science.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "minLength": 1, "maxLength": 300, "description": "What to look for" },
                "language": { "type": "string", "enum": ["ko", "en"], "description": "Only this Wikipedia" },
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        let about = ToolInfo {
            spec: ToolSpec {
                name: names::SEARCH_WIKIPEDIA.into(),
                description: description.into(),
                parameters,
            },
            ko: "위키백과를 찾아봅니다. 한국어판 먼저, 없으면 영어판.".into(),
            en: "Searches Wikipedia: the Korean one first, then the English one.".into(),
            side_effect: ToolSideEffect::ReadOnly,
            outward: true,
            origin: TextOrigin::Web,
            timeout: Duration::from_secs(35),
            max_output_bytes: 16 * 1024,
        };
        Self { info: about, egress, ko, en }
    }

    async fn search(&self, base: &Url, query: &str) -> Result<Vec<WikipediaPage>, EgressError> {
        let mut url = base.join("w/api.php").map_err(|_| EgressError::Blocked("not a URL"))?;
        let limit = MAX_ARTICLES.to_string();
        url.query_pairs_mut().extend_pairs([
            ("action", "query"),
            ("format", "json"),
            ("formatversion", "2"),
            ("redirects", "1"),
            ("generator", "search"),
            ("gsrsearch", query),
            ("gsrlimit", &limit),
            ("prop", "extracts|info"),
            ("exintro", "1"),
            ("explaintext", "1"),
            ("exlimit", "max"),
            ("inprop", "url"),
        ]);
        let answer = self.egress.fetch_json(&EgressRequest::get(url)).await?;
        // An error comes as JSON with status 200.
        if answer.get("error").is_some() {
            return Err(EgressError::Unreadable("Wikipedia reports a fault"));
        }
        let answer: WikipediaResponse = serde_json::from_value(answer)
            .map_err(|_| EgressError::Unreadable("not of the documented shape"))?;
        let mut pages = answer.query.pages;
        pages.retain(|page| !page.extract.trim().is_empty());
        pages.sort_by_key(|page| page.index);
        pages.truncate(MAX_ARTICLES);
        Ok(pages)
    }
}

#[async_trait]
impl Tool for SearchWikipedia {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let WikipediaArguments { query, language } =
            serde_json::from_value(arguments).map_err(|error| ToolError::BadArguments(error.to_string()))?;
        let tool_error = |error: EgressError| error.to_tool_error("Wikipedia", call.language);
        let mut pages = Vec::new();
        if language != Some(Language::English) {
            pages = self.search(&self.ko, query.trim()).await.map_err(tool_error)?;
        }
        if pages.is_empty() && language != Some(Language::Korean) {
            pages = self.search(&self.en, query.trim()).await.map_err(tool_error)?;
        }
        if pages.is_empty() {
            let shown: String = query.chars().take(100).collect();
            return Ok(ToolOutput::text(call.language.pick(
                format!("위키백과에서 `{shown}`에 관한 문서를 찾지 못했습니다"),
                format!("Wikipedia has no article about `{shown}`"),
            )));
        }
        let article = |page: WikipediaPage| {
            let extract = truncate_with_note(page.extract.trim().to_owned(), MAX_EXTRACT_BYTES);
            (
                format!("# {}\n{}\n{extract}", page.title, page.fullurl),
                json!({ "title": page.title, "url": page.fullurl }),
            )
        };
        let (texts, data): (Vec<String>, Vec<Value>) = pages.into_iter().map(article).unzip();
        Ok(ToolOutput {
            text: texts.join("\n\n"),
            data: json!({ "articles": data }),
            ..ToolOutput::default()
        })
    }
}
