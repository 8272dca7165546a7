//! Where evaluations are stored, and which agents they ask. The program implements [`EvalStore`]; this crate writes no files.

use doran_agents::Agent;
use doran_agents::eval::{AgentEvalReport, EvalDocuments};
use doran_engine::TenantId;
use futures_util::future::BoxFuture;

/// The sets of a tenant with their last reports. The files are those of `doran eval agent`.
pub trait EvalStore: Send + Sync + 'static {
    /// The names of all sets, sorted.
    fn names(&self, tenant: &TenantId) -> Result<Vec<String>, EvalStoreError>;

    /// The text of a set, if there is one.
    fn read(&self, tenant: &TenantId, name: &str) -> Result<Option<String>, EvalStoreError>;

    /// Stores the text of a set.
    fn write(&self, tenant: &TenantId, name: &str, text: &str) -> Result<(), EvalStoreError>;

    /// Deletes a set with its reports.
    fn remove(&self, tenant: &TenantId, name: &str) -> Result<(), EvalStoreError>;

    /// The last report of each variant, the newest first.
    fn reports(&self, tenant: &TenantId, name: &str) -> Result<Vec<AgentEvalReport>, EvalStoreError>;

    /// The newest report.
    fn newest_report(&self, tenant: &TenantId, name: &str)
    -> Result<Option<AgentEvalReport>, EvalStoreError>;

    /// Stores a report in place of the last one of its variant.
    fn save_report(
        &self,
        tenant: &TenantId,
        name: &str,
        report: &AgentEvalReport,
    ) -> Result<(), EvalStoreError>;

    /// Agents that search these documents. What they remember is discarded with them.
    fn agents(&self, documents: EvalDocuments) -> BoxFuture<'_, Result<Vec<Agent>, EvalStoreError>>;
}

/// Why a set cannot be read, stored or asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalStoreError {
    /// In English.
    pub en: String,
    /// In Korean.
    pub ko: String,
}
