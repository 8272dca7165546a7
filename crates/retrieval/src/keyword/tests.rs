//! Laws of the index in memory.

use super::*;
use crate::conformance;

#[tokio::test]
async fn ram_keyword_keeps_the_contract() {
    conformance::check(async |documents: Vec<Document>| RamKeyword::of(&conformance::tenant(), &documents)).await;
}

#[tokio::test]
async fn a_document_of_the_same_name_replaces_the_older_one() {
    let tenant = Tenant::new("t");
    let older = Document::new("d", "t", "사과 하나.\n\n사과 둘.");
    let index = RamKeyword::of(&tenant, [&older, &Document::new("d", "t", "배 하나.")]);
    assert!(index.search(&Question::new(tenant, "사과", 5)).is_empty());
}

#[tokio::test]
async fn a_tenant_finds_nothing_of_another() {
    let index = RamKeyword::of(&Tenant::new("a"), [&Document::new("d", "t", "사과 하나.")]);
    assert!(index.search(&Question::new(Tenant::new("b"), "사과", 5)).is_empty());
    assert_eq!(index.list(&Tenant::new("b"), &Filter::default()).await.expect("list"), []);
    assert_eq!(index.search(&Question::new(Tenant::new("a"), "사과", 5)).len(), 1);
}
