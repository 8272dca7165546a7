//! An error response.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error response (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The status of the response.
    pub status: u16,
    /// The code of the error, for programs.
    pub code: Cow<'static, str>,
    /// The error in English.
    pub title: Cow<'static, str>,
    /// The error in Korean.
    pub title_ko: Cow<'static, str>,
    /// Details of this occurrence, in English.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Details of this occurrence, in Korean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail_ko: Option<String>,
    /// The parameter of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}
