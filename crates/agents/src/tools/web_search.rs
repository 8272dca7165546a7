//! `web_search`: what the web says, from Tavily.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::egress::{Egress, EgressError, EgressRequest};
use super::text_cleaning::truncate_with_note;
use super::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSecret, ToolSideEffect, names};

/// Where Tavily is.
pub(crate) const TAVILY_URL: &str = "https://api.tavily.com";
const SERVICE_NAME: &str = "Tavily";
/// How much of a page is shown.
const MAX_CONTENT_BYTES: usize = 2500;

/// The tool.
#[derive(Debug)]
pub struct WebSearch {
    info: ToolInfo,
    egress: Arc<Egress>,
    base: Url,
    key: Option<ToolSecret>,
}

#[derive(Debug, Deserialize)]
struct WebSearchArguments {
    query: String,
    #[serde(default)]
    max_results: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct TavilyResponse {
    results: Vec<TavilyResult>,
}

#[derive(Debug, Deserialize)]
struct TavilyResult {
    title: String,
    url: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    score: f64,
}

impl WebSearch {
    /// One that asks Tavily at `base` with `key`.
    pub fn new(egress: Arc<Egress>, base: Url, key: Option<ToolSecret>) -> Self {
        let description = "Searches the web and gives titles, addresses and contents of the best pages. Use it for news and for what \
            may have changed recently.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "minLength": 1, "maxLength": 400, "description": "What to look for" },
                "max_results": { "type": "integer", "minimum": 1, "maximum": 10, "description": "How many pages (default 5)" },
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        let about = ToolInfo {
            spec: ToolSpec { name: names::WEB_SEARCH.into(), description: description.into(), parameters },
            ko: "웹을 검색합니다 (Tavily).".into(),
            en: "Searches the web (Tavily).".into(),
            side_effect: ToolSideEffect::ReadOnly,
            outward: true,
            origin: TextOrigin::Web,
            timeout: Duration::from_secs(20),
            max_output_bytes: 24 * 1024,
        };
        Self { info: about, egress, base, key }
    }
}

#[async_trait]
impl Tool for WebSearch {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let WebSearchArguments { query, max_results } =
            serde_json::from_value(arguments).map_err(|error| ToolError::BadArguments(error.to_string()))?;
        let Some(key) = &self.key else {
            return Err(ToolError::NotConfigured(call.language.pick(
                "웹 검색에는 Tavily 키가 필요합니다. https://tavily.com 에서 받아 환경 변수 TAVILY_API_KEY에 넣으세요".into(),
                "web search needs a Tavily key: get one at https://tavily.com and set it as TAVILY_API_KEY".into(),
            )));
        };
        let max_hits = max_results.unwrap_or(5).clamp(1, 10);
        let body = json!({
            "query": query.trim(), "max_results": max_hits, "search_depth": "basic", "topic": "general",
            "include_answer": false, "include_images": false, "include_raw_content": false,
        });
        let tool_error = |error: EgressError| error.to_tool_error(SERVICE_NAME, call.language);
        let url = self.base.join("/search").map_err(|_| tool_error(EgressError::Blocked("not a URL")))?;
        let request = EgressRequest { url, body: Some(body), bearer: Some(key.clone()) };
        let answer = self.egress.fetch_json(&request).await.map_err(tool_error)?;
        let answer: TavilyResponse = serde_json::from_value(answer)
            .map_err(|_| tool_error(EgressError::Unreadable("not of the documented shape")))?;
        if answer.results.is_empty() {
            return Ok(ToolOutput::text(call.language.pick("찾은 것이 없습니다", "nothing was found")));
        }
        let page = |(number, found): (usize, TavilyResult)| {
            let content = truncate_with_note(found.content.trim().to_owned(), MAX_CONTENT_BYTES);
            let (title, url) = (truncate_with_note(found.title, 300), truncate_with_note(found.url, 1000));
            (
                format!("[{}] {title}\n{url}\n{content}", number + 1),
                json!({ "title": title, "url": url, "score": found.score }),
            )
        };
        let found = answer.results.into_iter().take(usize::from(max_hits)).enumerate();
        let (texts, data): (Vec<String>, Vec<Value>) = found.map(page).unzip();
        Ok(ToolOutput { text: texts.join("\n\n"), data: json!({ "results": data }), ..ToolOutput::default() })
    }
}
