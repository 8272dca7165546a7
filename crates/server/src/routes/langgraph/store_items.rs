//! Items of the store: JSON objects under a namespace and a key, shared by all threads of a tenant.

use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_engine::EngineError;
use doran_engine::store::{
    InvalidItem, ItemComparison, ItemCondition, ItemKey, ItemNamespace, ItemSearch, NamespacePrefix,
    NamespaceSearch, SharedItem, StoreError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::times::time_text;
use super::{invalid, operation, page_size, read_body};
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::{ApiRoute, json_response, query_value};

/// The first name of namespaces that are this server's own. It sorts behind the names that people use, so the server's own
/// items come last in every list and are cut off there.
const RESERVED_NAME: &str = "\u{10fffd}doran";

/// The longest lifetime of an item, in minutes: ten years.
const MAX_TTL_MINUTES: f64 = 10.0 * 366.0 * 24.0 * 60.0;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::put(
            "/store/items",
            put_item,
            operation("langgraph_put_item", "Puts an item, replacing an older one of this name.")
                .body::<PutItemBody>()
                .returns_nothing("It is stored.")
                .errors(&[ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/store/items",
            get_item,
            operation("langgraph_get_item", "Returns an item.")
                .query::<ItemQuery>()
                .returns::<Option<StoreItem>>(200, "The item; `null` if there is none."),
        ),
        ApiRoute::delete(
            "/store/items",
            delete_item,
            operation("langgraph_delete_item", "Deletes an item.")
                .body::<DeleteItemBody>()
                .returns_nothing("There is no such item any more."),
        ),
        ApiRoute::post(
            "/store/items/search",
            search_items,
            operation("langgraph_search_items", "Lists items by their namespaces and keys.")
                .body::<SearchItemsBody>()
                .returns::<FoundItems>(200, "The items."),
        ),
        ApiRoute::post(
            "/store/namespaces",
            list_namespaces,
            operation("langgraph_list_namespaces", "Lists namespaces that have items.")
                .body::<NamespacesBody>()
                .returns::<FoundNamespaces>(200, "The namespaces."),
        ),
    ]
}

/// An item as LangGraph's clients read it.
#[derive(Debug, Serialize, JsonSchema)]
struct StoreItem {
    /// Where it lies.
    namespace: Vec<String>,
    /// What it is called there.
    key: String,
    /// What it holds.
    value: Map<String, Value>,
    /// When it was first put.
    created_at: String,
    /// When it was last put.
    updated_at: String,
}

impl From<SharedItem> for StoreItem {
    fn from(item: SharedItem) -> Self {
        Self {
            namespace: item.namespace.names().to_vec(),
            key: item.key.as_str().to_owned(),
            value: item.value,
            created_at: time_text(item.created_at),
            updated_at: time_text(item.updated_at),
        }
    }
}

/// An item that was found.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundItem {
    /// The item.
    #[serde(flatten)]
    item: StoreItem,
    /// How well it fits a query. Items are not searched by words.
    #[schemars(with = "Option<f64>")]
    score: Value,
}

/// Items that were found.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FoundItems {
    /// The items.
    items: Vec<FoundItem>,
}

/// Namespaces that were found.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FoundNamespaces {
    /// The namespaces.
    namespaces: Vec<Vec<String>>,
}

/// A namespace of the server's own.
pub(super) fn reserved_namespace(names: &[&str]) -> Result<ItemNamespace, ApiError> {
    ItemNamespace::new([&[RESERVED_NAME], names].concat()).map_err(|error| bad_item(&error))
}

/// An item that the store refuses is a mistake of the request.
pub(super) fn item_error(error: EngineError) -> ApiError {
    match error {
        EngineError::Store(StoreError::Rejected(why)) => {
            invalid(&why.to_string(), &format!("저장할 수 없는 항목입니다 ({why})"))
        }
        error => error.into(),
    }
}

fn bad_item(error: &InvalidItem) -> ApiError {
    invalid(&error.to_string(), &format!("항목의 이름을 쓸 수 없습니다 ({error})"))
}

/// Refuses names that clients cannot use.
fn check_names(field: &str, names: &[String]) -> Result<(), ApiError> {
    if names.iter().any(|name| name.is_empty() || name.contains('.')) {
        return Err(invalid(
            &format!("`{field}`: a name is not empty and has no period"),
            &format!("`{field}`: 이름은 비어 있지 않고 마침표가 없어야 합니다"),
        ));
    }
    if names.first().is_some_and(|name| name == RESERVED_NAME) {
        return Err(invalid(
            &format!("`{field}` belongs to the server"),
            &format!("`{field}`은(는) 서버가 쓰는 이름입니다"),
        ));
    }
    Ok(())
}

fn namespace(names: &[String]) -> Result<ItemNamespace, ApiError> {
    check_names("namespace", names)?;
    ItemNamespace::new(names.iter().cloned())
        .map_err(|error| invalid(&format!("`namespace`: {error}"), &format!("`namespace`: {error}")))
}

fn prefix(field: &str, names: &[String]) -> Result<NamespacePrefix, ApiError> {
    check_names(field, names)?;
    NamespacePrefix::new(names.iter().cloned())
        .map_err(|error| invalid(&format!("`{field}`: {error}"), &format!("`{field}`: {error}")))
}

fn key(text: &str) -> Result<ItemKey, ApiError> {
    ItemKey::new(text).map_err(|error| invalid(&format!("`key`: {error}"), &format!("`key`: {error}")))
}

/// An item to put.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PutItemBody {
    /// Where it lies.
    namespace: Vec<String>,
    /// What it is called there.
    key: String,
    /// What it holds.
    value: Map<String, Value>,
    /// Fields that are searched by words: only `false`, as none is.
    #[serde(default)]
    index: Option<bool>,
    /// After how many minutes it is gone. The default is never.
    #[serde(default)]
    ttl: Option<f64>,
}

/// `PUT /store/items`
pub(super) async fn put_item(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: PutItemBody = read_body(request, &app).await?;
    if body.index == Some(true) {
        return Err(invalid(
            "`index` is not supported: items are not searched by words",
            "`index`는 지원하지 않습니다. 항목을 낱말로 검색하지 않습니다",
        ));
    }
    let lifetime = match body.ttl {
        None => None,
        Some(minutes) if minutes > 0.0 && minutes <= MAX_TTL_MINUTES => {
            Some(Duration::from_secs_f64(minutes * 60.0))
        }
        Some(_) => {
            return Err(invalid(
                "`ttl` is not a number of minutes between 0 and ten years",
                "`ttl`은 0보다 크고 10년을 넘지 않는 분 단위의 수입니다",
            ));
        }
    };
    let (namespace, key) = (namespace(&body.namespace)?, key(&body.key)?);
    let put = app.runtime.put_item(&caller.tenant, &namespace, &key, &body.value, lifetime).await;
    put.map_err(item_error)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What follows the path of an item.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemQuery {
    /// The names of its namespace, with periods between them.
    namespace: String,
    /// What it is called there.
    key: String,
}

/// `GET /store/items`
pub(super) async fn get_item(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    query: Result<Query<ItemQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let query = query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    let names: Vec<String> = query.namespace.split('.').map(str::to_owned).collect();
    let (namespace, key) = (namespace(&names)?, key(&query.key)?);
    let found = app.runtime.item(&caller.tenant, &namespace, &key).await.map_err(item_error)?;
    Ok(json_response(found.map(StoreItem::from)))
}

/// An item to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteItemBody {
    /// Where it lies.
    namespace: Vec<String>,
    /// What it is called there.
    key: String,
}

/// `DELETE /store/items`
pub(super) async fn delete_item(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: DeleteItemBody = read_body(request, &app).await?;
    let (namespace, key) = (namespace(&body.namespace)?, key(&body.key)?);
    app.runtime.delete_item(&caller.tenant, &namespace, &key).await.map_err(item_error)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Which items are listed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchItemsBody {
    /// How their namespaces begin. The default is any.
    #[serde(default)]
    namespace_prefix: Option<Vec<String>>,
    /// What their fields hold: a value, or `$eq`, `$ne`, `$gt`, `$gte`, `$lt` or `$lte` with one.
    #[serde(default)]
    filter: Option<Map<String, Value>>,
    /// The maximum number, from 1 to 1000. The default is 10.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(default)]
    limit: Option<usize>,
    /// How many to skip.
    #[serde(default)]
    offset: Option<usize>,
}

/// `POST /store/items/search`
pub(super) async fn search_items(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    request: Request,
) -> Result<Response, ApiError> {
    let body: SearchItemsBody = read_body(request, &app).await?;
    let search = ItemSearch {
        prefix: prefix("namespace_prefix", &body.namespace_prefix.unwrap_or_default())?,
        conditions: conditions(&body.filter.unwrap_or_default())?,
        offset: body.offset.unwrap_or(0),
        limit: page_size(body.limit, 10)?,
    };
    let found = app.runtime.search_items(&caller.tenant, &search).await.map_err(item_error)?;
    let found = found.into_iter().filter(|item| is_clients(&item.namespace));
    let items = found.map(|item| FoundItem { item: item.into(), score: Value::Null }).collect();
    Ok(json_response(FoundItems { items }))
}

fn is_clients(namespace: &ItemNamespace) -> bool {
    namespace.names().first().is_none_or(|name| name != RESERVED_NAME)
}

/// The conditions of a filter.
fn conditions(filter: &Map<String, Value>) -> Result<Vec<ItemCondition>, ApiError> {
    let mut conditions = Vec::new();
    for (field, wanted) in filter {
        if field.starts_with('$') {
            return Err(invalid(
                &format!("`filter.{field}` is not supported: a filter has fields, and comparisons in them"),
                &format!(
                    "`filter.{field}`은(는) 지원하지 않습니다. 필터에는 필드를, 그 안에 비교를 적습니다"
                ),
            ));
        }
        let compared = wanted.as_object().filter(|object| object.keys().any(|name| name.starts_with('$')));
        let Some(compared) = compared else {
            let (field, with) = (field.clone(), wanted.clone());
            conditions.push(ItemCondition { field, comparison: ItemComparison::Equal, with });
            continue;
        };
        for (name, with) in compared {
            let comparison = match name.as_str() {
                "$eq" => ItemComparison::Equal,
                "$ne" => ItemComparison::NotEqual,
                "$gt" => ItemComparison::Greater,
                "$gte" => ItemComparison::GreaterOrEqual,
                "$lt" => ItemComparison::Less,
                "$lte" => ItemComparison::LessOrEqual,
                _ => {
                    return Err(invalid(
                        &format!("`filter.{field}.{name}` is not a comparison"),
                        &format!("`filter.{field}.{name}`은(는) 비교가 아닙니다"),
                    ));
                }
            };
            conditions.push(ItemCondition { field: field.clone(), comparison, with: with.clone() });
        }
    }
    Ok(conditions)
}

/// Which namespaces are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NamespacesBody {
    /// How they begin.
    prefix: Option<Vec<String>>,
    /// How they end.
    suffix: Option<Vec<String>>,
    /// Longer ones are shortened to so many names, and listed once.
    max_depth: Option<usize>,
    /// The maximum number, from 1 to 1000. The default is 100.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
}

/// `POST /store/namespaces`
pub(super) async fn list_namespaces(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    request: Request,
) -> Result<Response, ApiError> {
    let body: NamespacesBody = read_body(request, &app).await?;
    if body.max_depth == Some(0) {
        return Err(invalid("`max_depth` is not a number from 1 on", "`max_depth`는 1 이상의 수입니다"));
    }
    let search = NamespaceSearch {
        prefix: prefix("prefix", &body.prefix.unwrap_or_default())?,
        suffix: prefix("suffix", &body.suffix.unwrap_or_default())?,
        max_depth: body.max_depth,
        offset: body.offset.unwrap_or(0),
        limit: page_size(body.limit, 100)?,
    };
    let found = app.runtime.item_namespaces(&caller.tenant, &search).await.map_err(item_error)?;
    let namespaces = found.iter().filter(|found| is_clients(found)).map(|found| found.names().to_vec());
    Ok(json_response(FoundNamespaces { namespaces: namespaces.collect() }))
}
