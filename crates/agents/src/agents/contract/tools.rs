//! The tools of the contract agent. They are read-only and see only the documents of the turn.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use doran_retrieval::contract::ArticleReference;
use doran_retrieval::{DocumentTenant, Language, RetrieveError, SearchQuery};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::appendix::AppendixName;
use super::compared_subject::named_article;
use super::contract_documents::{ContractDocuments, ContractSide, LoadedDocuments};
use super::findings::{ContractFindings, find_appendices, find_by_reference, find_by_title};
use super::standard_comparison::{StandardComparison, compare_with_standards, matching_standards};
use crate::attachments::attachment_tenant;
use crate::request_format::NOTE_PREFIX;
use crate::tools::{
    Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolPolicy, ToolSideEffect, Toolbox,
    ToolboxError, names,
};

/// Most passages a search gives.
const MAX_SEARCH_HITS: usize = 6;

impl ContractDocuments {
    /// The four tools over these documents.
    pub(super) fn toolbox(&self) -> Result<Toolbox, ToolboxError> {
        let mut toolbox = Toolbox::new();
        for kind in [
            ContractToolKind::Search,
            ContractToolKind::ByIndex,
            ContractToolKind::ByTitle,
            ContractToolKind::Standard,
        ] {
            toolbox.add(
                Arc::new(ContractTool { info: kind.tool_info(), kind, documents: self.clone() }),
                ToolPolicy::Allow,
            )?;
        }
        Ok(toolbox)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContractToolKind {
    Search,
    ByIndex,
    ByTitle,
    Standard,
}

impl ContractToolKind {
    fn tool_info(self) -> ToolInfo {
        let (name, en, ko, parameters) = match self {
            Self::Search => (
                names::HYBRID_SEARCH,
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
                names::GET_ARTICLE_BY_INDEX,
                "Reads one article of the user's contract by its number, such as 제5조, 제10조의2, 제5조 제2항 or Article 5, all articles of a range, such as 제3조부터 제9조까지, or what is attached to it, such as 별지 1, 부칙 or Exhibit A.",
                "사용자 계약서의 조항을 조 번호로, 별지와 부칙은 이름으로 읽습니다",
                json!({
                    "type": "object",
                    "properties": { "article": { "type": "string", "description": "the number of the article, e.g. 제5조, or a range, e.g. 제3조부터 제9조까지", "minLength": 1, "maxLength": 100 } },
                    "required": ["article"],
                    "additionalProperties": false
                }),
            ),
            Self::ByTitle => (
                names::GET_ARTICLE_BY_TITLE,
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
                names::LOOKUP_STANDARD_CONTRACT,
                "Looks an article up in the standard contract, by its number, its title or its subject. With `compare` it \
                 lays the user's contract beside the standard: the pair of articles on one matter, what the user's \
                 contract lacks, or what it has beyond the standard.",
                "표준계약서에서 조 번호, 제목이나 주제로 찾고, 사용자 계약서와 조항끼리 비교합니다",
                json!({
                    "type": "object",
                    "properties": {
                        "query": { "type": "string", "description": "a number, a title or a subject; with `compare`, of the user's contract", "minLength": 1, "maxLength": 2000 },
                        "compare": { "type": "string", "enum": StandardComparison::ALL.map(StandardComparison::as_str), "description": "same: the user's article that `query` names and the standard's article that answers to it, to tell how they differ; missing: articles of the standard that the user's contract lacks; extra: articles of the user's contract that the standard does not have; all: the whole contract beside the standard" }
                    },
                    "required": ["query"],
                    "additionalProperties": false
                }),
            ),
        };
        ToolInfo {
            spec: ToolSpec { name: name.into(), description: en.into(), parameters },
            ko: ko.into(),
            en: en.into(),
            side_effect: ToolSideEffect::ReadOnly,
            outward: false,
            origin: TextOrigin::Document,
            timeout: Duration::from_secs(30),
            max_output_bytes: 16 * 1024,
        }
    }
}

struct ContractTool {
    info: ToolInfo,
    kind: ContractToolKind,
    documents: ContractDocuments,
}

#[derive(Deserialize)]
struct ContractSearchArguments {
    query: String,
    whose: Option<ContractSide>,
}

#[derive(Deserialize)]
struct StandardContractArguments {
    query: String,
    compare: Option<StandardComparison>,
}

#[derive(Deserialize)]
struct ArticleNumberArguments {
    article: String,
}

#[derive(Deserialize)]
struct ArticleTitleArguments {
    title: String,
}

#[async_trait]
impl Tool for ContractTool {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let tenant = attachment_tenant(call.tenant, call.thread);
        let findings = match self.kind {
            ContractToolKind::Search => {
                self.search(&tenant, parse_arguments(arguments)?, call.language).await?
            }
            ContractToolKind::ByIndex => {
                self.by_index(&tenant, &parse_arguments(arguments)?, call.language).await?
            }
            ContractToolKind::ByTitle => {
                self.by_title(&tenant, &parse_arguments(arguments)?, call.language).await?
            }
            ContractToolKind::Standard => {
                self.standard(&tenant, &parse_arguments(arguments)?, call.language).await?
            }
        };
        let text = findings_text(&findings, call.language);
        let data = serde_json::to_value(&findings).map_err(|error| ToolError::Failed(error.to_string()))?;
        Ok(ToolOutput { text, data, ..ToolOutput::default() })
    }
}

/// The text for the model: the places with their text, and what is not among them.
fn findings_text(findings: &ContractFindings, language: Language) -> String {
    let mut parts: Vec<String> =
        findings.found.iter().map(|source| format!("[{}]\n{}", source.title, source.quote)).collect();
    // Marked, so that they differ from the text of articles.
    parts.extend(findings.notes.iter().map(|note| format!("{NOTE_PREFIX}{note}")));
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

fn parse_arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments).map_err(|error| ToolError::BadArguments(error.to_string()))
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands the error over")]
fn retrieve_tool_error(error: RetrieveError) -> ToolError {
    match error {
        RetrieveError::Unavailable { .. } | RetrieveError::Missing { .. } => {
            ToolError::Unavailable(error.to_string())
        }
        _ => ToolError::Failed(error.to_string()),
    }
}

impl ContractTool {
    async fn load_documents(
        &self,
        tenant: &DocumentTenant,
        whose: ContractSide,
        language: Language,
    ) -> Result<LoadedDocuments, ToolError> {
        let loaded = self.documents.load_documents(tenant, whose).await.map_err(retrieve_tool_error)?;
        if loaded.documents.is_empty() {
            return Err(self.no_documents_error(tenant, whose, language).await);
        }
        Ok(loaded)
    }

    /// Why there is nothing to look in. A contract that was ingested as something else is named, with what to do.
    async fn no_documents_error(
        &self,
        tenant: &DocumentTenant,
        whose: ContractSide,
        language: Language,
    ) -> ToolError {
        let names = match whose {
            ContractSide::Standard => Vec::new(),
            ContractSide::User | ContractSide::All => {
                match self.documents.documents_with_articles(tenant).await {
                    Ok(names) => names,
                    Err(error) => return retrieve_tool_error(error),
                }
            }
        };
        ToolError::NotConfigured(match whose {
            ContractSide::Standard => language
                .pick(
                    "등록된 표준계약서가 없습니다. 문서를 올릴 때 종류를 표준계약서로 정하면 됩니다",
                    "there is no standard contract; ingest one and mark it as the standard of its kind",
                )
                .to_owned(),
            ContractSide::User | ContractSide::All if names.is_empty() => language
                .pick(
                    "등록된 계약서가 없습니다. 계약서를 먼저 올려 주세요",
                    "there is no contract yet; ingest one first",
                )
                .to_owned(),
            ContractSide::User | ContractSide::All => other_kind_message(&names, language),
        })
    }

    async fn search(
        &self,
        tenant: &DocumentTenant,
        arguments: ContractSearchArguments,
        language: Language,
    ) -> Result<ContractFindings, ToolError> {
        let whose = arguments.whose.unwrap_or(ContractSide::All);
        let filter = self.documents.filter(tenant, whose).await.map_err(retrieve_tool_error)?;
        let Some(filter) = filter else {
            return Err(self.no_documents_error(tenant, whose, language).await);
        };
        let question =
            SearchQuery { filter, ..SearchQuery::new(tenant.clone(), arguments.query, MAX_SEARCH_HITS) };
        let hits = self.documents.index.retrieve(&question).await.map_err(retrieve_tool_error)?;
        let mut findings = ContractFindings::default();
        for hit in hits {
            if let Some(document) = self
                .documents
                .load_document(tenant, &hit.passage.document)
                .await
                .map_err(retrieve_tool_error)?
            {
                findings.add_passage(&document, hit.passage);
            }
        }
        Ok(findings)
    }

    async fn by_index(
        &self,
        tenant: &DocumentTenant,
        arguments: &ArticleNumberArguments,
        language: Language,
    ) -> Result<ContractFindings, ToolError> {
        let attachment = AppendixName::find(&arguments.article).map(|(attachment, _)| attachment);
        let reference = ArticleReference::parse(&arguments.article);
        let loaded = self.load_documents(tenant, ContractSide::User, language).await?;
        let (found, asked) = match (attachment, reference) {
            (Some(attachment), _) => {
                (find_appendices(&loaded.documents, &attachment), attachment.to_string())
            }
            (None, Some(reference)) => {
                (find_by_reference(&loaded.documents, &reference, language), reference.to_string())
            }
            (None, None) => {
                let article = &arguments.article;
                return Err(ToolError::BadArguments(language.pick(
                    format!("`{article}`은(는) 조 번호가 아닙니다. 제5조나 별지 1처럼 적어 주세요"),
                    format!(
                        "`{article}` is no number of an article; write it like 제5조, Article 5 or Exhibit A"
                    ),
                )));
            }
        };
        let notes = if found.found.is_empty() {
            vec![article_not_found_note(&loaded, &asked, language)]
        } else {
            found.notes.clone()
        };
        Ok(ContractFindings { unread: loaded.left_out, notes, ..found })
    }

    async fn by_title(
        &self,
        tenant: &DocumentTenant,
        arguments: &ArticleTitleArguments,
        language: Language,
    ) -> Result<ContractFindings, ToolError> {
        let loaded = self.load_documents(tenant, ContractSide::User, language).await?;
        Ok(ContractFindings { unread: loaded.left_out, ..find_by_title(&loaded.documents, &arguments.title) })
    }

    async fn standard(
        &self,
        tenant: &DocumentTenant,
        arguments: &StandardContractArguments,
        language: Language,
    ) -> Result<ContractFindings, ToolError> {
        let standards = self.load_documents(tenant, ContractSide::Standard, language).await?;
        if let Some(wanted) = arguments.compare {
            let contracts = self.load_documents(tenant, ContractSide::User, language).await?;
            let findings = compare_with_standards(&contracts, &standards, &arguments.query, wanted, language);
            if !findings.is_empty() || wanted != StandardComparison::Same {
                return Ok(findings);
            }
            if named_article(&arguments.query).is_none() {
                // Neither names the subject: what is near it is looked for on both sides.
                let search = ContractSearchArguments { query: arguments.query.clone(), whose: None };
                return self.search(tenant, search, language).await;
            }
        }
        let reference = ArticleReference::parse(&arguments.query);
        let contracts =
            self.documents.load_documents(tenant, ContractSide::User).await.map_err(retrieve_tool_error)?;
        let near = matching_standards(&contracts, &standards);
        let kinds = standards.kind_count();
        // Standards of other kinds have an article of the same number too, on another matter.
        for (loaded, counts_alike) in [(&near, true), (&standards, kinds == 1)] {
            let numbered = reference.as_ref().filter(|_| counts_alike);
            let by_number = numbered
                .map(|reference| find_by_reference(&loaded.documents, reference, language))
                .unwrap_or_default();
            for findings in [by_number, find_by_title(&loaded.documents, &arguments.query)] {
                if !findings.found.is_empty() {
                    return Ok(ContractFindings { unread: standards.left_out, ..findings });
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
            return Ok(ContractFindings {
                notes: vec![note],
                unread: standards.left_out,
                ..ContractFindings::default()
            });
        }
        let search =
            ContractSearchArguments { query: arguments.query.clone(), whose: Some(ContractSide::Standard) };
        self.search(tenant, search, language).await
    }
}

/// The note about a place that no contract has.
fn article_not_found_note(loaded: &LoadedDocuments, wanted: &str, language: Language) -> String {
    match loaded.documents.as_slice() {
        [only] => language.pick(
            format!("「{}」에 없는 조항이라 찾지 못했습니다: {wanted}", only.title),
            format!("Not in “{}”: {wanted}", only.title),
        ),
        all => {
            let count = all.len();
            language.pick(
                format!("계약서 {count}건 어디에도 없는 조항이라 찾지 못했습니다: {wanted}"),
                format!("In none of {count} contracts: {wanted}"),
            )
        }
    }
}

/// The note when no document is a contract by its kind, but some are written in articles.
pub(super) fn other_kind_message(names: &[String], language: Language) -> String {
    let list = names.join(", ");
    language.pick(
        format!(
            "계약서로 등록된 문서가 없습니다. 다음 문서는 조항이 있지만 일반 문서로 등록되어 있습니다: {list}. 계약서라면 `doran documents kind contract ID`나 `PATCH /api/documents/ID`로 종류를 계약서(contract)로 바꾸세요"
        ),
        format!(
            "no document is registered as a contract; these have articles but are registered as general documents: {list}. If one is a contract, change its kind with `doran documents kind contract ID` or `PATCH /api/documents/ID`"
        ),
    )
}
