//! The documents that a turn is about: the user's contracts and the standards, each shelf for itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use doran_retrieval::contract::Contract;
use doran_retrieval::{Document, DocumentId, DocumentKind, Filter, Index, Listed, RetrieveError, Tenant};
use serde::Deserialize;

/// Most contracts, and most standards, that one look-up reads. A search goes over all there are.
const MOST_DOCUMENTS: usize = 200;
/// Most documents that a planner is told of by name.
const MOST_NAMES: usize = 20;

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
pub(super) enum Whose {
    User,
    Standard,
    All,
}

/// Documents, whole, and how many more there are that were not read.
#[derive(Default)]
pub(super) struct Shelf {
    pub(super) documents: Vec<Document>,
    pub(super) left_out: usize,
}

impl Shelf {
    /// How many kinds of documents there are.
    pub(super) fn kinds(&self) -> usize {
        self.documents.iter().map(|document| &document.kind).collect::<BTreeSet<_>>().len()
    }
}

impl Desk {
    /// What is on the desk, by name: the user's contracts, then the standards.
    async fn listed(&self, tenant: &Tenant) -> Result<(Vec<Listed>, Vec<Listed>), RetrieveError> {
        let (mut contracts, mut standards) = (Vec::new(), Vec::new());
        for one in self.index.list(tenant, &Filter::default()).await? {
            match (&one.kind, &self.contract) {
                (DocumentKind::Standard(_), Some(id)) if one.id.as_str() == id => contracts.push(one),
                (DocumentKind::Standard(_), _) => standards.push(one),
                (_, Some(id)) if one.id.as_str() == id => contracts.push(one),
                (DocumentKind::Contract, None) => contracts.push(one),
                (DocumentKind::Contract | DocumentKind::General, _) => {}
            }
        }
        Ok((contracts, standards))
    }

    /// What a search over these documents is narrowed to; nothing where there is none.
    pub(super) async fn filter(
        &self,
        tenant: &Tenant,
        whose: Whose,
    ) -> Result<Option<Filter>, RetrieveError> {
        let (mut contracts, mut standards) = self.listed(tenant).await?;
        match whose {
            Whose::User => standards.clear(),
            Whose::Standard => contracts.clear(),
            Whose::All => {}
        }
        let all = || contracts.iter().chain(&standards);
        if all().next().is_none() {
            return Ok(None);
        }
        // One contract is named by itself; else kinds say it, however many documents there are.
        let named = self.contract.is_some() && !contracts.is_empty();
        let mut filter = Filter::default();
        if named {
            filter.documents = all().map(|one| one.id.clone()).collect();
        } else {
            filter.kinds = all().map(|one| one.kind.clone()).collect();
            filter.kinds.sort();
            filter.kinds.dedup();
        }
        Ok(Some(filter))
    }

    /// The documents of the user or the standards, whole.
    pub(super) async fn documents(&self, tenant: &Tenant, whose: Whose) -> Result<Shelf, RetrieveError> {
        let (contracts, standards) = self.listed(tenant).await?;
        let mut shelf = Shelf::default();
        for (listed, other) in [(contracts, Whose::Standard), (standards, Whose::User)] {
            if whose == other {
                continue;
            }
            shelf.left_out += listed.len().saturating_sub(MOST_DOCUMENTS);
            for one in listed.iter().take(MOST_DOCUMENTS) {
                shelf.documents.extend(self.document(tenant, &one.id).await?);
            }
        }
        Ok(shelf)
    }

    /// One document, whole.
    pub(super) async fn document(
        &self,
        tenant: &Tenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        self.index.document(tenant, id).await
    }

    /// What a planner is told about the user's contracts: their titles and the titles of their articles.
    pub(super) async fn titles(&self, tenant: &Tenant) -> Result<(Vec<String>, Vec<String>), RetrieveError> {
        let name = |one: &Listed| match &one.kind {
            DocumentKind::Standard(kind) => format!("{} (표준계약서 · standard contract, {kind})", one.title),
            DocumentKind::Contract | DocumentKind::General => one.title.clone(),
        };
        let (contracts, standards) = self.listed(tenant).await?;
        let mut names = Vec::new();
        for listed in [contracts, standards] {
            names.extend(listed.iter().take(MOST_NAMES).map(name));
            if let more @ 1.. = listed.len().saturating_sub(MOST_NAMES) {
                names.push(format!("… +{more}"));
            }
        }
        let own = self.documents(tenant, Whose::User).await?;
        let articles = own.documents.iter().flat_map(|document| Contract::parse(document).articles);
        Ok((names, articles.map(|article| article.title).filter(|title| !title.is_empty()).collect()))
    }
}
