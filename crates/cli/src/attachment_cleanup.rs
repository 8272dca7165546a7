//! Deletes files that are attached to conversations which are gone: a retention setting deletes conversations without their
//! attachments.

use std::collections::BTreeSet;

use doran_agents::attachments::{attachment_tenant, library_tenant};
use doran_engine::store::{ThreadFilter, ThreadListPosition};
use doran_engine::{Runtime, TenantId};
use doran_retrieval::{DocumentTenant, Library};

/// Threads read in one go.
const THREADS_PER_PAGE: usize = 200;

/// Deletes the attachments of conversations that are gone. Returns how many files were deleted.
pub(crate) async fn delete_orphaned_attachments(
    runtime: &Runtime,
    library: &Library,
) -> anyhow::Result<usize> {
    // The owners are listed before the conversations: a file is attached to a conversation that is there already.
    let owners: Vec<(DocumentTenant, DocumentTenant)> = library
        .tenants()
        .into_iter()
        .filter_map(|owner| library_tenant(&owner).map(|tenant| (tenant, owner)))
        .collect();
    let tenants: BTreeSet<&DocumentTenant> = owners.iter().map(|(tenant, _)| tenant).collect();
    let mut existing = BTreeSet::new();
    for tenant in tenants {
        let tenant = TenantId::new(tenant.as_str())?;
        let mut filter = ThreadFilter { limit: THREADS_PER_PAGE, ..ThreadFilter::default() };
        loop {
            let page = runtime.list_threads(&tenant, &filter).await?;
            existing
                .extend(page.iter().map(|row| attachment_tenant(tenant.as_str(), row.key.thread.as_str())));
            filter.after = page.last().map(ThreadListPosition::from);
            if page.len() < THREADS_PER_PAGE {
                break;
            }
        }
    }
    let mut deleted = 0;
    for (_, owner) in owners.iter().filter(|(_, owner)| !existing.contains(owner)) {
        for document in library.list(owner) {
            library.remove(owner, &document.id).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}
