//! Loads the documents of a turn: the user's contracts, and the standard contracts.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use doran_retrieval::contract::Contract;
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, DocumentKind, DocumentSummary, DocumentTenant,
    RetrieveError,
};
use serde::Deserialize;

use crate::attachments::library_tenant;

/// Most contracts, and most standards, that one look-up reads. A search goes over all there are.
const MAX_LOADED_DOCUMENTS: usize = 200;
/// Most documents that a planner gets by name.
const MAX_LISTED_TITLES: usize = 20;

/// The documents of a turn.
#[derive(Clone)]
pub(super) struct ContractDocuments {
    pub(super) index: Arc<dyn DocumentIndex>,
    /// The contract that is asked about; without it, those that are attached to the conversation, or all of the user's.
    pub(super) contract: Option<String>,
}

/// Which documents are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ContractSide {
    User,
    Standard,
    All,
}

/// The documents of a turn by name.
#[derive(Default)]
struct ListedContracts {
    contracts: Vec<DocumentSummary>,
    standards: Vec<DocumentSummary>,
    /// Whether these contracts are meant and no others.
    are_chosen: bool,
}

/// Documents, whole, and how many more there are that were not read.
#[derive(Default)]
pub(super) struct LoadedDocuments {
    pub(super) documents: Vec<Document>,
    pub(super) left_out: usize,
}

impl LoadedDocuments {
    /// How many kinds of documents there are.
    pub(super) fn kind_count(&self) -> usize {
        self.documents.iter().map(|document| &document.kind).collect::<BTreeSet<_>>().len()
    }
}

impl ContractDocuments {
    /// The documents by name: the user's contracts, then the standards.
    async fn list_by_side(&self, tenant: &DocumentTenant) -> Result<ListedContracts, RetrieveError> {
        let mut listed = ListedContracts::default();
        for one in self.index.list(tenant, &DocumentFilter::default()).await? {
            match (&one.kind, &self.contract) {
                (DocumentKind::Standard(_), Some(id)) if one.id.as_str() == id => listed.contracts.push(one),
                (DocumentKind::Standard(_), _) => listed.standards.push(one),
                (_, Some(id)) if one.id.as_str() == id => listed.contracts.push(one),
                (DocumentKind::Contract, None) => listed.contracts.push(one),
                (DocumentKind::Contract | DocumentKind::General, _) => {}
            }
        }
        listed.are_chosen = match &self.contract {
            Some(_) => !listed.contracts.is_empty(),
            None => self.choose_attached(tenant, &mut listed.contracts).await?,
        };
        Ok(listed)
    }

    /// Leaves only the contracts that are attached to the conversation, if there are any: a person who attaches one asks about it.
    async fn choose_attached(
        &self,
        tenant: &DocumentTenant,
        contracts: &mut Vec<DocumentSummary>,
    ) -> Result<bool, RetrieveError> {
        let Some(library) = library_tenant(tenant) else { return Ok(false) };
        let stored = self.index.list(&library, &DocumentFilter::default()).await?;
        let stored: HashSet<&str> = stored.iter().map(|one| one.id.as_str()).collect();
        let is_attached = |one: &DocumentSummary| !stored.contains(one.id.as_str());
        let are_chosen = contracts.iter().any(is_attached);
        if are_chosen {
            contracts.retain(is_attached);
        }
        Ok(are_chosen)
    }

    /// What a search over these documents is narrowed to; nothing where there is none.
    pub(super) async fn filter(
        &self,
        tenant: &DocumentTenant,
        whose: ContractSide,
    ) -> Result<Option<DocumentFilter>, RetrieveError> {
        let ListedContracts { mut contracts, mut standards, are_chosen } = self.list_by_side(tenant).await?;
        match whose {
            ContractSide::User => standards.clear(),
            ContractSide::Standard => contracts.clear(),
            ContractSide::All => {}
        }
        let all = || contracts.iter().chain(&standards);
        if all().next().is_none() {
            return Ok(None);
        }
        // Chosen contracts are named by themselves; else kinds say it, however many documents there are.
        let mut filter = DocumentFilter::default();
        if are_chosen && !contracts.is_empty() {
            filter.documents = all().map(|one| one.id.clone()).collect();
        } else {
            filter.kinds = all().map(|one| one.kind.clone()).collect();
            filter.kinds.sort();
            filter.kinds.dedup();
        }
        Ok(Some(filter))
    }

    /// The documents of the user or the standards, whole.
    pub(super) async fn load_documents(
        &self,
        tenant: &DocumentTenant,
        whose: ContractSide,
    ) -> Result<LoadedDocuments, RetrieveError> {
        let ListedContracts { contracts, standards, .. } = self.list_by_side(tenant).await?;
        let mut loaded = LoadedDocuments::default();
        for (listed, other) in [(contracts, ContractSide::Standard), (standards, ContractSide::User)] {
            if whose == other {
                continue;
            }
            loaded.left_out += listed.len().saturating_sub(MAX_LOADED_DOCUMENTS);
            for one in listed.iter().take(MAX_LOADED_DOCUMENTS) {
                loaded.documents.extend(self.load_document(tenant, &one.id).await?);
            }
        }
        Ok(loaded)
    }

    /// The user's contracts by title and id, for a message that no contract has a given name.
    pub(super) async fn contract_names(&self, tenant: &DocumentTenant) -> Result<Vec<String>, RetrieveError> {
        let all = Self { index: self.index.clone(), contract: None };
        let contracts = all.list_by_side(tenant).await?.contracts;
        let names =
            contracts.iter().take(MAX_LISTED_TITLES).map(|one| format!("{} (`{}`)", one.title, one.id));
        Ok(names.collect())
    }

    /// Documents that are written in articles but are not contracts by their kind, by title and id. A contract that was
    /// ingested as something else is among them.
    pub(super) async fn documents_with_articles(
        &self,
        tenant: &DocumentTenant,
    ) -> Result<Vec<String>, RetrieveError> {
        let general = DocumentFilter { kinds: vec![DocumentKind::General], ..DocumentFilter::default() };
        let mut names = Vec::new();
        for one in self.index.list(tenant, &general).await?.iter().take(MAX_LOADED_DOCUMENTS) {
            let document = self.load_document(tenant, &one.id).await?;
            if document.is_some_and(|document| Contract::parse(&document).named) {
                names.push(format!("{} (`{}`)", one.title, one.id));
            }
            if names.len() == MAX_LISTED_TITLES {
                break;
            }
        }
        Ok(names)
    }

    /// One document, whole.
    pub(super) async fn load_document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        self.index.document(tenant, id).await
    }

    /// The text for a planner about the user's contracts: their titles and the titles of their articles.
    pub(super) async fn planner_titles(
        &self,
        tenant: &DocumentTenant,
    ) -> Result<(Vec<String>, Vec<String>), RetrieveError> {
        let name = |one: &DocumentSummary| match &one.kind {
            DocumentKind::Standard(kind) => format!("{} (표준계약서 · standard contract, {kind})", one.title),
            DocumentKind::Contract | DocumentKind::General => one.title.clone(),
        };
        let ListedContracts { contracts, standards, .. } = self.list_by_side(tenant).await?;
        let mut names = Vec::new();
        for listed in [contracts, standards] {
            names.extend(listed.iter().take(MAX_LISTED_TITLES).map(name));
            if let more @ 1.. = listed.len().saturating_sub(MAX_LISTED_TITLES) {
                names.push(format!("… +{more}"));
            }
        }
        let own = self.load_documents(tenant, ContractSide::User).await?;
        let articles = own.documents.iter().flat_map(|document| Contract::parse(document).articles);
        Ok((names, articles.map(|article| article.title).filter(|title| !title.is_empty()).collect()))
    }
}

#[cfg(test)]
mod tests {
    use doran_retrieval::{RamKeywordIndex, split_into_passages};

    use super::*;
    use crate::attachments::{AttachmentIndex, attachment_tenant};

    #[tokio::test]
    async fn attached_contracts_are_those_that_are_asked_about() {
        let index: Arc<dyn DocumentIndex> =
            Arc::new(AttachmentIndex::new(Arc::new(RamKeywordIndex::default())));
        let library = DocumentTenant::new("a");
        let (mine, other) = (attachment_tenant("a", "나의 대화"), attachment_tenant("a", "다른 대화"));
        let standard = DocumentKind::Standard("용역".to_owned());
        for (tenant, name, kind) in [
            (&library, "임대", DocumentKind::Contract),
            (&library, "표준", standard.clone()),
            (&mine, "물류", DocumentKind::Contract),
            (&mine, "메모", DocumentKind::General),
        ] {
            let document =
                Document { kind, ..Document::new(name, name, "제1조(대금) 대금을 지급한다.") };
            index.put(tenant, &document, &split_into_passages(&document)).await.expect("stored");
        }
        let check = async |contract: Option<&str>, tenant: &DocumentTenant, side, expected: &str| {
            let documents = ContractDocuments { index: index.clone(), contract: contract.map(str::to_owned) };
            let loaded = documents.load_documents(tenant, side).await.expect("documents");
            let mut ids: Vec<&str> = loaded.documents.iter().map(|document| document.id.as_str()).collect();
            ids.sort_unstable();
            assert_eq!(ids.join(" "), expected, "{contract:?} {}", tenant.as_str());
            let filter = documents.filter(tenant, side).await.expect("a filter").expect("documents");
            (filter.documents.len(), filter.kinds)
        };
        assert_eq!(check(None, &mine, ContractSide::User, "물류").await, (1, Vec::new()));
        assert_eq!(check(None, &mine, ContractSide::All, "물류 표준").await, (2, Vec::new()));
        // A contract that is named is meant, wherever it is, and without attachments all are.
        assert_eq!(check(Some("임대"), &mine, ContractSide::User, "임대").await, (1, Vec::new()));
        for tenant in [&other, &library] {
            let kinds = vec![DocumentKind::Contract];
            assert_eq!(check(None, tenant, ContractSide::User, "임대").await, (0, kinds));
        }
        assert_eq!(check(None, &mine, ContractSide::Standard, "표준").await, (0, vec![standard]));
    }
}
