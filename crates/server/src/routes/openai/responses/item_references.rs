//! References to items of earlier responses (`item_reference`), which clients send instead of the items.

use doran_engine::RunKey;
use serde_json::{Value, json};

use super::super::client_calls::{find_call, run_of_call};
use super::response_id::ResponseId;
use super::response_object::{ResponseHead, function_call_item, load_response};
use super::{find_run, load_row};
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::ApiError;

/// The most references of one request: each is looked up in a log.
const MAX_REFERENCES: usize = 100;

/// The input with the items that its references name.
pub(super) async fn resolve(app: &ServerApp, caller: &ApiCaller, input: Value) -> Result<Value, ApiError> {
    let Value::Array(mut items) = input else { return Ok(input) };
    let mut count = 0;
    for (at, item) in items.iter_mut().enumerate().filter(|(_, item)| item["type"] == "item_reference") {
        count += 1;
        let found = match (count <= MAX_REFERENCES).then(|| item["id"].as_str()).flatten() {
            Some(id) => find_item(app, caller, id).await?,
            None => None,
        };
        *item = found.ok_or_else(|| {
            ApiError::for_parameter(
                &format!("input[{at}].id"),
                "there is no such item of a response",
                "그런 응답 항목이 없습니다",
            )
        })?;
    }
    Ok(Value::Array(items))
}

/// The item of this id, of a response of the caller's.
async fn find_item(app: &ServerApp, caller: &ApiCaller, id: &str) -> Result<Option<Value>, ApiError> {
    if let Some(rest) = id.strip_prefix("msg_") {
        let Some(response) = ResponseId::parse(&format!("resp_{rest}")) else { return Ok(None) };
        let Some(row) = find_run(app, caller, response).await? else { return Ok(None) };
        let head = ResponseHead::load(app, response, &row, String::new()).await?;
        let items = json!(load_response(app, &head, &row).await?.output);
        let found = items.as_array().and_then(|items| items.iter().find(|item| item["id"] == id));
        return Ok(found.cloned());
    }
    let Some(rest) = id.strip_prefix("fc_") else { return Ok(None) };
    let call = format!("call_{rest}");
    let Some(run) = run_of_call(&call) else { return Ok(None) };
    let key = RunKey { tenant: caller.tenant.clone(), run };
    let Some(row) = load_row(app, &key).await? else { return Ok(None) };
    let call = find_call(app, &row, &call).await?;
    Ok(call.map(|call| json!(function_call_item(call, "completed"))))
}
