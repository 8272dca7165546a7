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

use super::appendix::Attached;
use super::beside::{Beside, beside, standards_of};
use super::desk::{Desk, Shelf, Whose};
use super::findings::{Findings, attached, located, titled};
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
                "Reads one article of the user's contract by its number, such as 제5조, 제10조의2, 제5조 제2항 or Article 5, or what is attached to it, such as 별지 1, 부칙 or Exhibit A.",
                "사용자 계약서의 조항을 조 번호로, 별지와 부칙은 이름으로 읽습니다",
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

/// Stands before a note.
pub(super) const NOTED: &str = "※ ";

/// What the model is told: the places with their words, and what is not among them.
fn told(findings: &Findings, language: Language) -> String {
    let mut parts: Vec<String> =
        findings.found.iter().map(|source| format!("[{}]\n{}", source.title, source.quote)).collect();
    // Marked, so that they are told from the words of articles.
    parts.extend(findings.notes.iter().map(|note| format!("{NOTED}{note}")));
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
        let attachment = Attached::find(&arguments.article).map(|(attachment, _)| attachment);
        let reference = Reference::parse(&arguments.article);
        let shelf = self.documents(tenant, Whose::User, language).await?;
        let (found, asked) = match (attachment, reference) {
            (Some(attachment), _) => (attached(&shelf.documents, &attachment), attachment.to_string()),
            (None, Some(reference)) => (located(&shelf.documents, &reference), reference.to_string()),
            (None, None) => {
                let asked = &arguments.article;
                return Err(ToolError::BadArguments(language.pick(
                    format!("`{asked}`은(는) 조 번호가 아닙니다. 제5조나 별지 1처럼 적어 주세요"),
                    format!(
                        "`{asked}` is no number of an article; write it like 제5조, Article 5 or Exhibit A"
                    ),
                )));
            }
        };
        let notes = if found.found.is_empty() { vec![absent(&shelf, &asked, language)] } else { Vec::new() };
        Ok(Findings { unread: shelf.left_out, notes, ..found })
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
            if !findings.found.is_empty() || !findings.notes.is_empty() || wanted != Beside::Same {
                return Ok(findings);
            }
        }
        let reference = Reference::parse(&arguments.query);
        let contracts = self.desk.documents(tenant, Whose::User).await.map_err(away)?;
        let near = standards_of(&contracts, &standards);
        let kinds = standards.kinds();
        // Standards of other kinds have an article of the same number too, on another matter.
        for (shelf, counts_alike) in [(&near, true), (&standards, kinds == 1)] {
            let numbered = reference.as_ref().filter(|_| counts_alike);
            let by_number =
                numbered.map(|reference| located(&shelf.documents, reference)).unwrap_or_default();
            for findings in [by_number, titled(&shelf.documents, &arguments.query)] {
                if !findings.found.is_empty() {
                    return Ok(Findings { unread: standards.left_out, ..findings });
                }
            }
        }
        if let Some(reference) = &reference {
            let note = language.pick(
                format!("표준계약서 {kinds}종 가운데 어느 것의 {reference}인지 알 수 없습니다. 표준계약서의 이름을 함께 적어 주세요."),
                format!("There are {kinds} kinds of standard contracts; name the one whose {reference} is meant."),
            );
            let absent = language.pick(
                format!("표준계약서에 없는 조항입니다: {reference}"),
                format!("Not in the standard contract: {reference}"),
            );
            let note = if near.documents.is_empty() && kinds > 1 { note } else { absent };
            return Ok(Findings { notes: vec![note], unread: standards.left_out, ..Findings::default() });
        }
        let search = SearchArguments { query: arguments.query.clone(), whose: Some(Whose::Standard) };
        self.search(tenant, search, language).await
    }
}

/// What is said of a place that no contract has.
fn absent(shelf: &Shelf, asked: &str, language: Language) -> String {
    match shelf.documents.as_slice() {
        [only] => language.pick(
            format!("「{}」에 없는 조항이라 찾지 못했습니다: {asked}", only.title),
            format!("Not in “{}”: {asked}", only.title),
        ),
        all => {
            let count = all.len();
            language.pick(
                format!("계약서 {count}건 어디에도 없는 조항이라 찾지 못했습니다: {asked}"),
                format!("In none of {count} contracts: {asked}"),
            )
        }
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
