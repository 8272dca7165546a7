//! An error response.

use schemars::JsonSchema;
use serde::Serialize;

/// An error response (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The status of the response.
    pub status: u16,
    /// The code of the error, for programs.
    pub code: &'static str,
    /// The error in English.
    pub title: &'static str,
    /// The error in Korean.
    pub title_ko: &'static str,
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
