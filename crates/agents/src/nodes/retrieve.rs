//! Finds passages for a question.

use doran_engine::NodeError;
use doran_llm::{Message, MessageId, Origin, Part, Role};
use doran_retrieval::{DocumentId, Filter, Hit, Index, Question, RetrieveError, Retriever, Tenant};

use super::work::Work;
use crate::language::Language;
use crate::source::Source;

/// What was found for a question, numbered from 1. No model is asked.
pub(crate) async fn retrieve(
    work: &Work,
    index: &dyn Retriever,
    question: &str,
    limit: usize,
    filter: Filter,
) -> Result<Vec<Source>, NodeError> {
    let question = Question { filter, ..Question::new(tenant(work), question, limit) };
    let search = async { index.retrieve(&question).await.map_err(sorted) };
    let hits: Vec<Hit> = work.cx.effect("retrieve", search).await?;
    Ok(Source::numbered(hits))
}

/// What was found, as material for a model.
pub(crate) fn material(found: &[Source], language: Language) -> Message {
    let heading = language.pick("[참고 문서]\n", "[Reference documents]\n");
    let nothing = language.pick("찾은 문서가 없습니다.", "Nothing was found.");
    let text = if found.is_empty() { format!("{heading}{nothing}") } else { heading.to_owned() };
    let mut parts = vec![Part::Text { text, origin: Origin::Program }];
    parts.extend(found.iter().map(|source| Part::Passage(source.material())));
    Message { id: MessageId::new("material"), role: Role::System, parts }
}

/// Those sources whose quote stands in its document, word for word and at its place.
pub(crate) async fn verified(
    work: &Work,
    index: &dyn Index,
    sources: Vec<Source>,
) -> Result<Vec<Source>, NodeError> {
    if sources.is_empty() {
        return Ok(sources);
    }
    let tenant = tenant(work);
    let check = async {
        let mut kept = Vec::new();
        for source in sources {
            let document =
                index.document(&tenant, &DocumentId::new(&source.document)).await.map_err(sorted)?;
            if document.is_some_and(|document| source.stands_in(&document.text)) {
                kept.push(source);
            }
        }
        Ok::<_, NodeError>(kept)
    };
    work.cx.effect("verify", check).await
}

/// Whose documents are searched.
pub(crate) fn tenant(work: &Work) -> Tenant {
    Tenant::new(work.cx.tenant().map_or("local", |tenant| tenant.as_str()))
}

pub(crate) fn sorted(error: RetrieveError) -> NodeError {
    let code = error.failure_code();
    match error {
        RetrieveError::Unavailable { .. } => NodeError::transient(error),
        RetrieveError::Stale { .. } | RetrieveError::OtherEmbedder { .. } => NodeError::permanent(error),
    }
    .with_code(code)
}
