//! The tools of the contract agent: they only read, each within the documents that the turn is about.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{Origin, ToolSpec};
use doran_retrieval::contract::Reference;
use doran_retrieval::{Question, RetrieveError, Tenant};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::beside::{Beside, beside};
use super::desk::{Desk, Shelf, Whose};
use super::findings::{Findings, located, titled};
use crate::tools::{About, Call, Class, Language, Output, Policy, Tool, ToolError, Toolbox, ToolboxError};

/// Most passages a search gives.
const MOST_HITS: usize = 6;

/// The names of the four tools over contracts.
pub(crate) const TOOLS: [&str; 4] =
    ["hybrid_search", "get_article_by_index", "get_article_by_title", "lookup_standard_contract"];

impl Desk {
    /// The four tools over these documents.
    pub(super) fn toolbox(&self) -> Result<Toolbox, ToolboxError> {
        let mut toolbox = Toolbox::new();
        for kind in [Kind::Search, Kind::ByIndex, Kind::ByTitle, Kind::Standard] {
            toolbox.add(Arc::new(Reader { about: kind.about(), kind, desk: self.clone() }), Policy::Allow)?;
        }
        Ok(toolbox)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Search,
    ByIndex,
    ByTitle,
    Standard,
}

impl Kind {
    fn about(self) -> About {
        let (name, en, ko, parameters) = match self {
            Self::Search => (
                "hybrid_search",
                "Searches the contract and the standard contract for words and meanings. Use it when no article is named.",
                "계약서와 표준계약서에서 말과 뜻으로 찾습니다",
                json!({
                    "type": "object",
                    "properties": {
                        "query": { "type": "string", "description": "what to look for", "minLength": 1, "maxLength": 2000 },
                        "whose": { "type": "string", "enum": ["user", "standard", "all"], "description": "the user's contract, the standard contract or both; both if left out" }
                    },
                    "required": ["query"],
                    "additionalProperties": false
                }),
            ),
            Self::ByIndex => (
                "get_article_by_index",
                "Reads one article of the user's contract by its number, such as 제5조, 제10조의2, 제5조 제2항 or Article 5.",
                "사용자 계약서의 조항을 조 번호로 읽습니다",
                json!({
                    "type": "object",
                    "properties": { "article": { "type": "string", "description": "the number of the article, e.g. 제5조", "minLength": 1, "maxLength": 100 } },
                    "required": ["article"],
                    "additionalProperties": false
                }),
            ),
            Self::ByTitle => (
                "get_article_by_title",
                "Reads the articles of the user's contract that have this title or one like it, such as 손해배상.",
                "사용자 계약서의 조항을 조 제목으로 읽습니다",
                json!({
                    "type": "object",
                    "properties": { "title": { "type": "string", "description": "the title of the article", "minLength": 1, "maxLength": 300 } },
                    "required": ["title"],
                    "additionalProperties": false
                }),
            ),
            Self::Standard => (
                "lookup_standard_contract",
                "Looks an article up in the standard contract, by its number, its title or its subject. With `compare` it \
                 lays the user's contract beside the standard: the pair of articles on one matter, what the user's \
                 contract lacks, or what it has beyond the standard.",
                "표준계약서에서 조 번호, 제목이나 주제로 찾고, 사용자 계약서와 조항끼리 견줍니다",
                json!({
                    "type": "object",
                    "properties": {
                        "query": { "type": "string", "description": "a number, a title or a subject; with `compare`, of the user's contract", "minLength": 1, "maxLength": 2000 },
                        "compare": { "type": "string", "enum": ["same", "missing", "extra"], "description": "same: the user's article that `query` names and the standard's article that answers to it, to tell how they differ; missing: articles of the standard that the user's contract lacks; extra: articles of the user's contract that the standard does not have" }
                    },
                    "required": ["query"],
                    "additionalProperties": false
                }),
            ),
        };
        About {
            spec: ToolSpec { name: name.into(), description: en.into(), parameters },
            ko: ko.into(),
            en: en.into(),
            class: Class::ReadOnly,
            outward: false,
            origin: Origin::Document,
            time: Duration::from_secs(30),
            most_output: 16 * 1024,
        }
    }
}

struct Reader {
    about: About,
    kind: Kind,
    desk: Desk,
}

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    whose: Option<Whose>,
}

#[derive(Deserialize)]
struct StandardArguments {
    query: String,
    compare: Option<Beside>,
}

#[derive(Deserialize)]
struct IndexArguments {
    article: String,
}

#[derive(Deserialize)]
struct TitleArguments {
    title: String,
}

#[async_trait]
impl Tool for Reader {
    fn about(&self) -> &About {
        &self.about
    }

    async fn call(&self, arguments: Value, call: Call<'_>) -> Result<Output, ToolError> {
        let tenant = Tenant::new(call.tenant);
        let findings = match self.kind {
            Kind::Search => self.search(&tenant, parsed(arguments)?, call.language).await?,
            Kind::ByIndex => self.by_index(&tenant, &parsed(arguments)?, call.language).await?,
            Kind::ByTitle => self.by_title(&tenant, &parsed(arguments)?, call.language).await?,
            Kind::Standard => self.standard(&tenant, &parsed(arguments)?, call.language).await?,
        };
        let text = told(&findings, call.language);
        let data = serde_json::to_value(&findings).unwrap_or_default();
        Ok(Output { text, data, session: None })
    }
}

/// What the model is told: the places with their words, and what is not among them.
fn told(findings: &Findings, language: Language) -> String {
    let mut parts: Vec<String> =
        findings.found.iter().map(|source| format!("[{}]\n{}", source.title, source.quote)).collect();
    if parts.is_empty() {
        parts.push(language.pick("찾은 조항이 없습니다.", "No article was found.").to_owned());
    }
    if let more @ 1.. = findings.left_out {
        parts.push(language.pick(
            format!(
                "(조항 {more}개를 더 찾았지만 여기에는 뺐습니다. 계약서를 골라 물으면 다 볼 수 있습니다.)"
            ),
            format!(
                "({more} more articles were found and left out here; ask about one contract to see them.)"
            ),
        ));
    }
    if let unread @ 1.. = findings.unread {
        parts.push(language.pick(
            format!("(계약서 {unread}건은 살펴보지 않았습니다. 계약서를 골라 물어 보세요.)"),
            format!("({unread} contracts were not looked at; ask about one of them.)"),
        ));
    }
    parts.join("\n\n")
}

fn parsed<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments).map_err(|error| ToolError::BadArguments(error.to_string()))
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands the error over")]
fn away(error: RetrieveError) -> ToolError {
    match error {
        RetrieveError::Unavailable { .. } => ToolError::Unavailable(error.to_string()),
        _ => ToolError::Failed(error.to_string()),
    }
}

impl Reader {
    async fn documents(&self, tenant: &Tenant, whose: Whose, language: Language) -> Result<Shelf, ToolError> {
        let shelf = self.desk.documents(tenant, whose).await.map_err(away)?;
        if shelf.documents.is_empty() { Err(none(whose, language)) } else { Ok(shelf) }
    }

    async fn search(
        &self,
        tenant: &Tenant,
        arguments: SearchArguments,
        language: Language,
    ) -> Result<Findings, ToolError> {
        let whose = arguments.whose.unwrap_or(Whose::All);
        let filter = self.desk.filter(tenant, whose).await.map_err(away)?;
        let filter = filter.ok_or_else(|| none(whose, language))?;
        let question = Question { filter, ..Question::new(tenant.clone(), arguments.query, MOST_HITS) };
        let hits = self.desk.index.retrieve(&question).await.map_err(away)?;
        let mut findings = Findings::default();
        for hit in hits {
            if let Some(document) = self.desk.document(tenant, &hit.passage.document).await.map_err(away)? {
                findings.add_passage(&document, hit.passage);
            }
        }
        Ok(findings)
    }

    async fn by_index(
        &self,
        tenant: &Tenant,
        arguments: &IndexArguments,
        language: Language,
    ) -> Result<Findings, ToolError> {
        let reference = Reference::parse(&arguments.article).ok_or_else(|| {
            let asked = &arguments.article;
            ToolError::BadArguments(language.pick(
                format!("`{asked}`은(는) 조 번호가 아닙니다. 제5조처럼 적어 주세요"),
                format!("`{asked}` is no number of an article; write it like 제5조 or Article 5"),
            ))
        })?;
        let shelf = self.documents(tenant, Whose::User, language).await?;
        Ok(Findings { unread: shelf.left_out, ..located(&shelf.documents, &reference) })
    }

    async fn by_title(
        &self,
        tenant: &Tenant,
        arguments: &TitleArguments,
        language: Language,
    ) -> Result<Findings, ToolError> {
        let shelf = self.documents(tenant, Whose::User, language).await?;
        Ok(Findings { unread: shelf.left_out, ..titled(&shelf.documents, &arguments.title) })
    }

    async fn standard(
        &self,
        tenant: &Tenant,
        arguments: &StandardArguments,
        language: Language,
    ) -> Result<Findings, ToolError> {
        let standards = self.documents(tenant, Whose::Standard, language).await?;
        if let Some(wanted) = arguments.compare {
            let contracts = self.documents(tenant, Whose::User, language).await?;
            let findings = beside(&contracts, &standards, &arguments.query, wanted, language);
            // An article that no contract of the user has may still be one of the standard.
            if !findings.found.is_empty() || wanted != Beside::Same {
                return Ok(findings);
            }
        }
        let by_number =
            Reference::parse(&arguments.query).map(|reference| located(&standards.documents, &reference));
        let by_title = || titled(&standards.documents, &arguments.query);
        let findings = by_number.filter(|found| !found.found.is_empty()).unwrap_or_else(by_title);
        if !findings.found.is_empty() {
            return Ok(Findings { unread: standards.left_out, ..findings });
        }
        let search = SearchArguments { query: arguments.query.clone(), whose: Some(Whose::Standard) };
        self.search(tenant, search, language).await
    }
}

fn none(whose: Whose, language: Language) -> ToolError {
    ToolError::NotConfigured(
        match whose {
            Whose::Standard => language.pick(
                "등록된 표준계약서가 없습니다. 문서를 올릴 때 종류를 표준계약서로 정하면 됩니다",
                "there is no standard contract; ingest one and mark it as the standard of its kind",
            ),
            Whose::User | Whose::All => language.pick(
                "등록된 계약서가 없습니다. 계약서를 먼저 올려 주세요",
                "there is no contract yet; ingest one first",
            ),
        }
        .to_owned(),
    )
}
