//! Builds an index anew beside the old one, which others may go on writing to until the alias is switched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use doran_llm::Embedder;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::http::Http;
use super::{Head, OpenSearchIndex, body, parsed};
use crate::passage::{DocumentId, Passage, Tenant};
use crate::retriever::RetrieveError;

/// A document that was copied.
struct Copied {
    tenant: Tenant,
    document: DocumentId,
    generation: (u64, String),
}

impl OpenSearchIndex {
    /// Builds the index anew from its own documents, beside the old one, and switches the alias. What others put and
    /// removed meanwhile is followed after that.
    pub async fn rebuild(
        address: &str,
        name: &str,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let mut index = Self::over(Http::new(address)?, name, embedder)?;
        let Some(old) = index.behind().await? else {
            index.create(&format!("{name}-1"), Some(name)).await?;
            return Ok(index);
        };
        let number: u64 = old.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let new = format!("{name}-{}", number + 1);
        index.http.send(Method::DELETE, &format!("/{new}"), None).await?;
        index.create(&new, None).await?;
        new.clone_into(&mut index.target);
        let mut copied = BTreeMap::new();
        index.follow(&old, &mut copied).await?;
        let switch = json!({ "actions": [
            { "remove": { "index": old, "alias": name } }, { "add": { "index": new, "alias": name } },
        ] });
        index.http.done(Method::POST, "/_aliases", Some(&switch)).await?;
        index.follow(&old, &mut copied).await?;
        index.http.send(Method::DELETE, &format!("/{old}"), None).await?;
        name.clone_into(&mut index.target);
        Ok(index)
    }

    /// Copies from another index what was not copied in this generation, and removes what was copied and is gone there.
    /// Copies keep their generation: what is put here meanwhile is later, and stays. `copied` goes by the keys of heads.
    async fn follow(&self, old: &str, copied: &mut BTreeMap<String, Copied>) -> Result<(), RetrieveError> {
        // What was written a moment ago may not be searchable yet.
        self.http.done(Method::POST, &format!("/{old}/_refresh"), None).await?;
        let heads = json!({ "term": { "what": "head" } });
        let mut there = BTreeSet::new();
        for head in self.all(old, heads, json!(["whole", "generation"])).await? {
            let key: String = parsed(&head["_id"])?;
            there.insert(key.clone());
            let name: String = parsed(&head["_source"]["generation"])?;
            if copied.get(&key).is_none_or(|copy| copy.generation.1 != name) {
                copied.insert(key, self.copy(old, &head["_source"]["whole"], name).await?);
            }
        }
        let gone: Vec<String> = copied.keys().filter(|key| !there.contains(*key)).cloned().collect();
        for key in gone {
            if let Some(copy) = copied.remove(&key) {
                self.forget(&key, &copy).await?;
            }
        }
        Ok(())
    }

    async fn copy(&self, old: &str, whole: &Value, name: String) -> Result<Copied, RetrieveError> {
        let Head { tenant, document, .. } = parsed(whole)?;
        let of_it = json!({ "bool": { "filter": [
            { "term": { "what": "passage" } }, { "term": { "tenant": body::key(&[tenant.as_str()]) } },
            { "term": { "document": body::key(&[document.id.as_str()]) } },
            { "term": { "generation": name } },
        ] } });
        let mut passages: Vec<Passage> = Vec::new();
        for entry in self.all(old, of_it, json!(["passage"])).await? {
            passages.push(parsed(&entry["_source"]["passage"]["passage"])?);
        }
        passages.sort_by_key(|passage| passage.range.start);
        let time = name.get(..16).and_then(|time| u64::from_str_radix(time, 16).ok());
        let time = time.ok_or_else(|| RetrieveError::Stale {
            reason: "an entry in OpenSearch has an odd generation".to_owned(),
        })?;
        let (id, generation) = (document.id.clone(), (time, name));
        self.put_as(&tenant, &[&(document, passages)], || generation.clone()).await?;
        Ok(Copied { tenant, document: id, generation })
    }

    /// Removes a copy, unless something later took its place.
    async fn forget(&self, key: &str, copy: &Copied) -> Result<(), RetrieveError> {
        let Copied { tenant, document, generation: (time, generation) } = copy;
        let path =
            format!("/{}/_doc/{key}?refresh=true&version={time}&version_type=external_gte", self.target);
        let answer = self.http.send(Method::DELETE, &path, None).await?;
        if !matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::CONFLICT) {
            answer.ok()?;
        }
        // Its own passages too: no other generation has a name between these two.
        self.sweep(tenant, &[document], &format!("{generation}0")).await
    }
}
