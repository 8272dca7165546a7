//! The tools of the contract agent: they only read, each within the documents that the turn is about.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{Origin, ToolSpec};
use doran_retrieval::contract::{Article, Contract, Reference, references};
use doran_retrieval::{
    Document, DocumentId, DocumentKind, Filter, Index, Passage, Question, RetrieveError, Tenant,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::source::{Source, SourceKind};
use crate::tools::{About, Call, Class, Language, Output, Policy, Tool, ToolError, Toolbox, ToolboxError};

/// Most contracts, and most standards, that one turn looks at when none is named.
const MOST_DOCUMENTS: usize = 8;
/// Most passages a search gives.
const MOST_HITS: usize = 6;
/// Most articles found by a title.
const MOST_TITLED: usize = 3;

/// What a tool found: places, and the articles they refer to.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, Deserialize)]
pub(super) struct Findings {
    pub(super) found: Vec<Source>,
    /// Articles of the same contract that the found ones refer to.
    #[serde(default)]
    pub(super) refers_to: Vec<String>,
}

/// The names of the four tools over contracts.
pub(crate) const TOOLS: [&str; 4] =
    ["hybrid_search", "get_article_by_index", "get_article_by_title", "lookup_standard_contract"];

/// The documents of a turn.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) index: Arc<dyn Index>,
    /// The contract that is asked about; without it, all of the user's.
    pub(super) contract: Option<String>,
}

/// Which documents are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Whose {
    User,
    Standard,
    All,
}

impl Desk {
    /// The four tools over these documents.
    pub(super) fn toolbox(&self) -> Result<Toolbox, ToolboxError> {
        let mut toolbox = Toolbox::new();
        for kind in [Kind::Search, Kind::ByIndex, Kind::ByTitle, Kind::Standard] {
            toolbox.add(Arc::new(Reader { about: kind.about(), kind, desk: self.clone() }), Policy::Allow)?;
        }
        Ok(toolbox)
    }

    /// The documents of the user or the standards, whole.
    async fn documents(&self, tenant: &Tenant, whose: Whose) -> Result<Vec<Document>, RetrieveError> {
        let mut documents = Vec::new();
        if let (Some(id), Whose::User | Whose::All) = (&self.contract, whose) {
            documents.extend(self.index.document(tenant, &DocumentId::new(id)).await?);
        }
        let listed = self.index.list(tenant, &Filter::default()).await?;
        for one in listed {
            let wanted = match &one.kind {
                DocumentKind::Contract => self.contract.is_none() && whose != Whose::Standard,
                DocumentKind::Standard(_) => whose != Whose::User,
                DocumentKind::General => false,
            };
            if wanted && documents.len() < MOST_DOCUMENTS {
                documents.extend(self.index.document(tenant, &one.id).await?);
            }
        }
        Ok(documents)
    }

    /// What a planner is told about the user's contracts: their titles and the titles of their articles.
    pub(super) async fn titles(&self, tenant: &Tenant) -> Result<(Vec<String>, Vec<String>), RetrieveError> {
        let documents = self.documents(tenant, Whose::All).await?;
        let name = |document: &Document| match &document.kind {
            DocumentKind::Standard(kind) => {
                format!("{} (표준계약서 · standard contract, {kind})", document.title)
            }
            DocumentKind::Contract | DocumentKind::General => document.title.clone(),
        };
        let names = documents.iter().map(name).collect();
        let contracts =
            documents.iter().filter(|document| !matches!(document.kind, DocumentKind::Standard(_)));
        let articles = contracts.flat_map(|document| Contract::parse(document).articles);
        Ok((names, articles.map(|article| article.title).filter(|title| !title.is_empty()).collect()))
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
                "Looks an article up in the standard contract, by its number, its title or its subject.",
                "표준계약서에서 조 번호, 제목이나 주제로 찾습니다",
                json!({
                    "type": "object",
                    "properties": { "query": { "type": "string", "description": "a number, a title or a subject", "minLength": 1, "maxLength": 2000 } },
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
        let text = if findings.found.is_empty() {
            call.language.pick("찾은 조항이 없습니다.", "No article was found.").to_owned()
        } else {
            let told = findings.found.iter().map(|source| format!("[{}]\n{}", source.title, source.quote));
            told.collect::<Vec<_>>().join("\n\n")
        };
        let data = serde_json::to_value(&findings).unwrap_or_default();
        Ok(Output { text, data, session: None })
    }
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
    async fn documents(
        &self,
        tenant: &Tenant,
        whose: Whose,
        language: Language,
    ) -> Result<Vec<Document>, ToolError> {
        let documents = self.desk.documents(tenant, whose).await.map_err(away)?;
        if !documents.is_empty() {
            return Ok(documents);
        }
        Err(ToolError::NotConfigured(
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
        ))
    }

    async fn search(
        &self,
        tenant: &Tenant,
        arguments: SearchArguments,
        language: Language,
    ) -> Result<Findings, ToolError> {
        let documents = self.documents(tenant, arguments.whose.unwrap_or(Whose::All), language).await?;
        let filter = Filter {
            documents: documents.iter().map(|document| document.id.clone()).collect(),
            ..Filter::default()
        };
        let question = Question { filter, ..Question::new(tenant.clone(), arguments.query, MOST_HITS) };
        let hits = self.desk.index.retrieve(&question).await.map_err(away)?;
        let mut findings = Findings::default();
        for hit in hits {
            if let Some(document) = documents.iter().find(|document| document.id == hit.passage.document) {
                findings.add_passage(document, hit.passage);
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
        let documents = self.documents(tenant, Whose::User, language).await?;
        Ok(located(&documents, &reference))
    }

    async fn by_title(
        &self,
        tenant: &Tenant,
        arguments: &TitleArguments,
        language: Language,
    ) -> Result<Findings, ToolError> {
        let documents = self.documents(tenant, Whose::User, language).await?;
        Ok(titled(&documents, &arguments.title))
    }

    async fn standard(
        &self,
        tenant: &Tenant,
        arguments: &SearchArguments,
        language: Language,
    ) -> Result<Findings, ToolError> {
        let documents = self.documents(tenant, Whose::Standard, language).await?;
        let by_number = Reference::parse(&arguments.query).map(|reference| located(&documents, &reference));
        let by_title = || titled(&documents, &arguments.query);
        let findings = by_number.filter(|found| !found.found.is_empty()).unwrap_or_else(by_title);
        if !findings.found.is_empty() {
            return Ok(findings);
        }
        let search = SearchArguments { query: arguments.query.clone(), whose: Some(Whose::Standard) };
        self.search(tenant, search, language).await
    }
}

fn located(documents: &[Document], reference: &Reference) -> Findings {
    let mut findings = Findings::default();
    for document in documents {
        let contract = Contract::parse(document);
        if let Some((article, range)) = contract.locate(reference) {
            findings.add(document, &contract, article, range);
        }
    }
    findings
}

fn titled(documents: &[Document], title: &str) -> Findings {
    let mut findings = Findings::default();
    for document in documents {
        let contract = Contract::parse(document);
        for (article, _) in contract.titled(title).into_iter().take(MOST_TITLED) {
            findings.add(document, &contract, article, article.range.clone());
        }
    }
    findings
}

impl Findings {
    /// Adds a place in an article.
    fn add(
        &mut self,
        document: &Document,
        contract: &Contract,
        article: &Article,
        range: std::ops::Range<usize>,
    ) {
        let Some(text) = document.text.get(range.clone()) else { return };
        let text = text.trim_end();
        let clause =
            article.clauses.iter().find(|clause| clause.range == range).map(|clause| clause.label.clone());
        let place = contract.headings(article);
        self.found.push(Source {
            number: 0,
            document: document.id.to_string(),
            title: std::iter::once(document.title.clone()).chain(place).collect::<Vec<_>>().join(" › "),
            kind: SourceKind::of(&document.kind),
            article: Some(article.number.to_string()),
            clause,
            page: page(document, range.start),
            passage: doran_retrieval::PassageId::at(&document.id, range.start).to_string(),
            version: document.version.clone(),
            quote: text.to_owned(),
            start: range.start,
            end: range.start + text.len(),
        });
        self.refer(contract, text);
    }

    /// Adds a passage that a search found.
    fn add_passage(&mut self, document: &Document, passage: Passage) {
        let contract = Contract::parse(document);
        let start = passage.range.start;
        let article = contract.articles.iter().find(|article| article.range.contains(&start));
        self.refer(&contract, &passage.text);
        self.found.push(Source {
            number: 0,
            document: document.id.to_string(),
            title: passage.title,
            kind: SourceKind::of(&document.kind),
            article: passage
                .article
                .or(article.map(|article| article.number))
                .map(|number| number.to_string()),
            clause: None,
            page: passage.page.or_else(|| page(document, start)),
            passage: passage.id.to_string(),
            version: passage.version,
            quote: passage.text,
            start,
            end: passage.range.end,
        });
    }

    /// Notes the articles of the same contract that a text names.
    fn refer(&mut self, contract: &Contract, text: &str) {
        for reference in references(text) {
            let known = reference.law.is_none() && contract.article(reference.article).is_some();
            let name = reference.article.to_string();
            if known && !self.refers_to.contains(&name) {
                self.refers_to.push(name);
            }
        }
    }
}

fn page(document: &Document, start: usize) -> Option<u32> {
    let page = document.pages.iter().take_while(|first| **first <= start).count();
    u32::try_from(page).ok().filter(|page| *page > 0)
}
