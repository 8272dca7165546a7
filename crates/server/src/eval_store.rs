//! Where evaluations are stored, and which agents they ask. The program implements [`EvalStore`]; this crate writes no files.

use async_trait::async_trait;
use doran_agents::Agent;
use doran_agents::eval::{AgentEvalReport, EvalDocuments};
use doran_engine::TenantId;

use crate::api::EvalRunInfo;
use crate::eval_usage::EvalUsage;

/// The sets of a tenant with their last reports and runs. The files are those of `doran eval agent`.
#[async_trait]
pub trait EvalStore: Send + Sync + 'static {
    /// The names of all sets, sorted.
    async fn names(&self, tenant: &TenantId) -> Result<Vec<String>, EvalStoreError>;

    /// A set, if there is one.
    async fn read(&self, tenant: &TenantId, name: &str) -> Result<Option<StoredEvalSet>, EvalStoreError>;

    /// Stores the text of a set in place of the one with the revision `replaced`, or as a new one. False, and nothing is
    /// changed, if another one is there.
    async fn write(
        &self,
        tenant: &TenantId,
        name: &str,
        replaced: Option<u64>,
        text: &str,
    ) -> Result<bool, EvalStoreError>;

    /// Deletes a set with its reports and its run.
    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<(), EvalStoreError>;

    /// The last report of each variant, the newest first.
    async fn reports(&self, tenant: &TenantId, name: &str) -> Result<Vec<AgentEvalReport>, EvalStoreError>;

    /// The newest report.
    async fn newest_report(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<AgentEvalReport>, EvalStoreError>;

    /// Stores a report in place of the last one of its variant.
    async fn save_report(
        &self,
        tenant: &TenantId,
        name: &str,
        report: &AgentEvalReport,
    ) -> Result<(), EvalStoreError>;

    /// The last run of a set, as it was stored last.
    async fn last_run(&self, tenant: &TenantId, set: &str) -> Result<Option<EvalRunInfo>, EvalStoreError>;

    /// Stores how the run of a set stands.
    async fn save_run(&self, tenant: &TenantId, run: &EvalRunInfo) -> Result<(), EvalStoreError>;

    /// Agents that search these documents. What they remember is discarded with them.
    async fn agents(&self, documents: EvalDocuments) -> Result<Vec<Agent>, EvalStoreError>;
}

/// What evaluations used. Their questions leave no runs behind, so it is written down here.
#[async_trait]
pub trait EvalUsageStore: Send + Sync + 'static {
    /// Adds what one question used.
    async fn add(&self, tenant: &TenantId, usage: EvalUsage) -> Result<(), EvalStoreError>;

    /// What was used since a time, in milliseconds since 1970.
    async fn since(&self, tenant: &TenantId, since: i64) -> Result<Vec<EvalUsage>, EvalStoreError>;
}

/// A set as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvalSet {
    /// The set in TOML.
    pub text: String,
    /// Another one for every other text.
    pub revision: u64,
}

/// Why a set cannot be read, stored or run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{en}")]
pub struct EvalStoreError {
    /// In English.
    pub en: String,
    /// In Korean.
    pub ko: String,
}
