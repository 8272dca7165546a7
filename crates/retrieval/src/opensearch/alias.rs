//! The index behind the alias: whether it is there, and how it is made, also after somebody has deleted it.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::http_client::{OpenSearchResponse, unavailable_error};
use super::{OpenSearchIndex, request_body};
use crate::retriever::RetrieveError;

/// What became of an attempt to create an index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexCreation {
    Created,
    /// There is one of this name.
    Exists,
    /// There is an index that has the name of the alias.
    NameTaken,
}

impl OpenSearchIndex {
    /// Returns the index behind the alias, if there is one.
    pub(super) async fn index_behind_alias(&self) -> Result<Option<String>, RetrieveError> {
        let answer = self.http.send_json(Method::GET, &format!("/_alias/{}", self.alias), None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let body = answer.into_success_body()?;
        Ok(body
            .as_object()
            .and_then(|indexes| indexes.keys().max_by_key(|name| (name.len(), *name)).cloned()))
    }

    /// Returns what an index is called in the cluster for ever: another one of the same name has another identifier.
    pub(super) async fn index_uuid(&self, index: &str) -> Result<String, RetrieveError> {
        let path = format!("/{index}/_settings");
        let settings = self.http.send_json_expecting_success(Method::GET, &path, None).await?;
        let uuid = settings[index].pointer("/settings/index/uuid").and_then(Value::as_str);
        uuid.map(str::to_owned).ok_or_else(|| unavailable_error("an index of OpenSearch has no `uuid`"))
    }

    /// Returns what identifies the index that is written to. `None` if there is none.
    pub(super) async fn target_uuid(&self) -> Result<Option<String>, RetrieveError> {
        let path = format!("/{}/_settings?flat_settings=true", self.target);
        let answer = self.http.send_json(Method::GET, &path, None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let settings = answer.into_success_body()?;
        // An index of the name of the alias is none of this program.
        let mut behind = settings.as_object().into_iter().flatten().filter(|(name, _)| **name != self.alias);
        Ok(behind.find_map(|(_, index)| Some(index["settings"]["index.uuid"].as_str()?.to_owned())))
    }

    /// Returns the index behind the alias. Without one, makes both.
    pub(super) async fn create_missing(&self) -> Result<String, RetrieveError> {
        let first = format!("{}-1", self.alias);
        if let Some(behind) = self.index_behind_alias().await? {
            return Ok(behind);
        }
        if self.create(&first, Some(&self.alias)).await? == IndexCreation::NameTaken {
            self.delete_stray_index().await?;
            self.create(&first, Some(&self.alias)).await?;
        }
        if let Some(behind) = self.index_behind_alias().await? {
            return Ok(behind);
        }
        self.name_unnamed_index(&first).await?;
        let behind = self.index_behind_alias().await?;
        behind.ok_or_else(|| RetrieveError::Missing { index: self.alias.clone() })
    }

    /// Creates an index through a template. Administrators can see it, and later indexes get the same settings.
    pub(super) async fn create(
        &self,
        index: &str,
        alias: Option<&str>,
    ) -> Result<IndexCreation, RetrieveError> {
        let made = request_body::index_definition(
            self.embedder.as_ref().map(|embedder| embedder.info()).as_ref(),
            &self.ranking,
        );
        let name = &self.alias;
        // The pattern of a longer name may be covered by that of a shorter one, so the longer one gets priority.
        let template = json!({
            "index_patterns": [format!("{name}-*")], "priority": 200 + name.len(), "template": made,
        });
        let path = format!("/_index_template/{name}");
        let answer = self.http.send_json(Method::PUT, &path, Some(&template)).await?;
        if !answer.status.is_success() {
            return check_created(answer);
        }
        let aliases = alias.map_or(json!({}), |alias| json!({ alias: {} }));
        let body = json!({ "aliases": aliases });
        check_created(self.http.send_json(Method::PUT, &format!("/{index}"), Some(&body)).await?)
    }

    /// Deletes an index that has the name of the alias, if it holds nothing but entries of this program. A bulk request made
    /// it, after the real one was deleted; the library has what is in it.
    async fn delete_stray_index(&self) -> Result<(), RetrieveError> {
        let name = &self.alias;
        let ours = json!({ "bool": { "filter": [
            { "match": { "what": "head passage" } }, { "exists": { "field": "generation" } },
            { "exists": { "field": "key" } },
        ] } });
        let foreign = json!({ "query": { "bool": { "must_not": [ours] } } });
        let refreshed = self.http.send_json(Method::POST, &format!("/{name}/_refresh"), None).await?;
        if refreshed.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        let path = format!("/{name}/_count");
        let counted = self.http.send_json_expecting_success(Method::POST, &path, Some(&foreign)).await?;
        let foreign = counted["count"].as_u64().unwrap_or(u64::MAX);
        if foreign > 0 {
            return Err(RetrieveError::NameTaken { index: name.clone(), foreign });
        }
        tracing::warn!(
            index = name,
            "OpenSearch had an index with the name of the alias; it held nothing that is not in the library and is deleted"
        );
        let deleted = self.http.send_json(Method::DELETE, &format!("/{name}"), None).await?;
        // Another process may have been faster. The name is an alias then, which this request leaves alone.
        if deleted.status != StatusCode::NOT_FOUND && self.index_behind_alias().await?.is_none() {
            deleted.into_success_body()?;
        }
        Ok(())
    }

    /// Gives the alias to an index of this program that has lost it. One that was made otherwise is replaced by an empty one.
    async fn name_unnamed_index(&self, index: &str) -> Result<(), RetrieveError> {
        let path = format!("/{index}/_mapping");
        let mapping = self.http.send_json_expecting_success(Method::GET, &path, None).await?;
        let made = &mapping[index]["mappings"]["_meta"];
        if made["layout"].is_null() {
            return Err(unavailable_error(format!(
                "OpenSearch has an index `{index}` that doran did not make; delete it, or choose another name"
            )));
        }
        let embedder = self.embedder.as_ref().map(|embedder| embedder.info());
        if *made == request_body::index_fingerprint(embedder.as_ref()) {
            let add = json!({ "actions": [{ "add": { "index": index, "alias": self.alias } }] });
            return self
                .http
                .send_json_expecting_success(Method::POST, "/_aliases", Some(&add))
                .await
                .map(drop);
        }
        self.http.send_json(Method::DELETE, &format!("/{index}"), None).await?;
        self.create(index, Some(&self.alias)).await.map(drop)
    }
}

fn check_created(answer: OpenSearchResponse) -> Result<IndexCreation, RetrieveError> {
    match answer.body.pointer("/error/type").and_then(Value::as_str) {
        // Another process may have created it at the same moment.
        Some("resource_already_exists_exception") => return Ok(IndexCreation::Exists),
        Some("invalid_alias_name_exception") => return Ok(IndexCreation::NameTaken),
        _ => {}
    }
    if answer.body.to_string().contains("knn") && !answer.status.is_success() {
        return Err(unavailable_error(
            "the cluster has no k-NN plugin: install it, or open the index without an embedder",
        ));
    }
    answer.into_success_body().map(|_| IndexCreation::Created)
}
