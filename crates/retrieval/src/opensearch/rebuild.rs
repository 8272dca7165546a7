//! Rebuilds an index beside the old one, which other processes may write to until the alias is switched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use doran_llm::Embedder;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::http_client::OpenSearchClient;
use super::{DocumentHeadEntry, OpenSearchIndex, parse_entry, request_body};
use crate::passage::{DocumentId, DocumentTenant, Passage};
use crate::retriever::RetrieveError;

/// A document that has been copied.
struct CopiedDocument {
    tenant: DocumentTenant,
    document: DocumentId,
    generation: (u64, String),
}

impl OpenSearchIndex {
    /// Rebuilds the index from its own documents beside the old one, and switches the alias. Changes that others made
    /// meanwhile are copied after that.
    pub async fn rebuild(
        address: &str,
        name: &str,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let mut index = Self::from_client(OpenSearchClient::new(address)?, name, embedder)?;
        let Some(old) = index.index_behind_alias().await? else {
            index.create_missing().await?;
            return Ok(index);
        };
        let number: u64 = old.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let new = format!("{name}-{}", number + 1);
        index.http.send_json(Method::DELETE, &format!("/{new}"), None).await?;
        index.create(&new, None).await?;
        new.clone_into(&mut index.target);
        let mut copied = BTreeMap::new();
        index.copy_changes(&old, &mut copied).await?;
        let switch = json!({ "actions": [
            { "remove": { "index": old, "alias": name } }, { "add": { "index": new, "alias": name } },
        ] });
        index.http.send_json_expecting_success(Method::POST, "/_aliases", Some(&switch)).await?;
        index.copy_changes(&old, &mut copied).await?;
        index.http.send_json(Method::DELETE, &format!("/{old}"), None).await?;
        name.clone_into(&mut index.target);
        Ok(index)
    }

    /// Copies documents from another index that were not copied in their current generation, and removes copies of
    /// those that were deleted there. A copy keeps its generation, so documents stored here meanwhile are later and
    /// win. The keys of `copied` are those of the heads.
    async fn copy_changes(
        &self,
        old: &str,
        copied: &mut BTreeMap<String, CopiedDocument>,
    ) -> Result<(), RetrieveError> {
        // Recent writes may not be searchable yet.
        self.http.send_json_expecting_success(Method::POST, &format!("/{old}/_refresh"), None).await?;
        let heads = json!({ "term": { "what": "head" } });
        let mut there = BTreeSet::new();
        for head in self.search_all_entries(old, heads, json!(["whole", "generation"])).await? {
            let key: String = parse_entry(&head["_id"])?;
            there.insert(key.clone());
            let name: String = parse_entry(&head["_source"]["generation"])?;
            if copied.get(&key).is_none_or(|copy| copy.generation.1 != name) {
                match self.copy_document(old, &head["_source"]["whole"], name).await {
                    Ok(copy) => drop(copied.insert(key, copy)),
                    // The library has it, if it is one that it wants to have found.
                    Err(RetrieveError::Stale { reason }) => {
                        tracing::warn!(
                            key,
                            reason,
                            "a document of the old index cannot be read and is not copied"
                        );
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let gone: Vec<String> = copied.keys().filter(|key| !there.contains(*key)).cloned().collect();
        for key in gone {
            if let Some(copy) = copied.remove(&key) {
                self.remove_copied_document(&key, &copy).await?;
            }
        }
        Ok(())
    }

    async fn copy_document(
        &self,
        old: &str,
        whole: &Value,
        name: String,
    ) -> Result<CopiedDocument, RetrieveError> {
        let DocumentHeadEntry { tenant, document, .. } = parse_entry(whole)?;
        let of_it = json!({ "bool": { "filter": [
            { "term": { "what": "passage" } }, { "term": { "tenant": request_body::hashed_key(&[tenant.as_str()]) } },
            { "term": { "document": request_body::hashed_key(&[document.id.as_str()]) } },
            { "term": { "generation": name } },
        ] } });
        let mut passages: Vec<Passage> = Vec::new();
        for entry in self.search_all_entries(old, of_it, json!(["passage"])).await? {
            passages.push(parse_entry(&entry["_source"]["passage"]["passage"])?);
        }
        passages.sort_by_key(|passage| passage.range.start);
        let time = name.get(..16).and_then(|time| u64::from_str_radix(time, 16).ok());
        let time = time.ok_or_else(|| RetrieveError::Stale {
            reason: "an entry in OpenSearch has an odd generation".to_owned(),
        })?;
        let (id, generation) = (document.id.clone(), (time, name));
        self.put_generation(&tenant, &[&(document, passages)], || generation.clone()).await?;
        Ok(CopiedDocument { tenant, document: id, generation })
    }

    /// Removes a copied document, unless a later generation has replaced it.
    async fn remove_copied_document(&self, key: &str, copy: &CopiedDocument) -> Result<(), RetrieveError> {
        let CopiedDocument { tenant, document, generation: (time, generation) } = copy;
        let path =
            format!("/{}/_doc/{key}?refresh=true&version={time}&version_type=external_gte", self.target);
        let answer = self.http.send_json(Method::DELETE, &path, None).await?;
        if !matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::CONFLICT) {
            answer.into_success_body()?;
        }
        // This also deletes the copy's own passages: no other generation sorts between the two names.
        self.delete_older_passages(tenant, &[document], &format!("{generation}0")).await
    }
}
