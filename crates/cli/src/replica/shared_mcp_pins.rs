//! The approved descriptions of MCP tools in the database that replicas share. The first replica that sees a tool approves it
//! for all.

use std::path::Path;

use doran_agents::tools::mcp::ToolPins;
use doran_engine::store::{KeyValueWrite, StoreError};

use super::{SETTING_BUCKET, SharedValues};
use crate::assemble::read_mcp_pins;
use crate::output::{BilingualMessage, bilingual};

/// The descriptions, among the settings.
const PINS_KEY: &str = "mcp_pins";

/// Reads the descriptions. Those of a file are moved into the database first.
pub(crate) async fn open(values: &SharedValues, file: &Path) -> Result<ToolPins, BilingualMessage> {
    if file.exists() {
        add(values, &read_mcp_pins(file)?).await?;
        let aside = file.with_extension("json.imported");
        std::fs::rename(file, &aside).map_err(|error| database_error(StoreError::Other(error.into())))?;
    }
    Ok(read(values).await?.0)
}

async fn read(values: &SharedValues) -> Result<(ToolPins, Option<u64>), BilingualMessage> {
    let found = values.key_value(SETTING_BUCKET, PINS_KEY).await.map_err(database_error)?;
    let Some(found) = found else { return Ok((ToolPins::default(), None)) };
    let pins = serde_json::from_slice(&found.value);
    let pins = pins.map_err(|error| database_error(StoreError::Damaged(error.to_string())))?;
    Ok((pins, Some(found.revision)))
}

/// Adds descriptions of tools that no replica has seen before. What others have seen stays as it is.
pub(crate) async fn add(values: &SharedValues, pins: &ToolPins) -> Result<(), BilingualMessage> {
    loop {
        let (mut known, expected) = read(values).await?;
        if !known.add_missing(pins) {
            return Ok(());
        }
        let bytes =
            serde_json::to_vec(&known).map_err(|error| database_error(StoreError::Other(error.into())))?;
        let write = KeyValueWrite::put(SETTING_BUCKET, PINS_KEY, expected, &bytes);
        if values.write_key_value(write).await.map_err(database_error)?.is_some() {
            return Ok(());
        }
    }
}

fn database_error(error: StoreError) -> BilingualMessage {
    bilingual!(
        "데이터베이스의 MCP 도구 설명을 읽거나 쓸 수 없습니다",
        "the descriptions of MCP tools in the database cannot be read or written"
    )
    .with_cause(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use doran_engine::store::RamStore;

    use super::*;
    use crate::test_directory::TestDirectory;

    #[tokio::test]
    async fn the_first_replica_that_sees_a_tool_approves_it_for_all() {
        let values: SharedValues = Arc::new(RamStore::new());
        let pins = |text: &str| serde_json::from_str::<ToolPins>(text).expect("pins");
        let scratch = TestDirectory::new();
        let file = scratch.path().join("mcp-pins.json");
        std::fs::write(&file, r#"{"s__a":"1"}"#).expect("written");
        assert_eq!(open(&values, &file).await.expect("moved"), pins(r#"{"s__a":"1"}"#));
        assert!(!file.exists() && scratch.path().join("mcp-pins.json.imported").exists());
        add(&values, &pins(r#"{"s__a":"2","s__b":"3"}"#)).await.expect("added");
        assert_eq!(open(&values, &file).await.expect("read"), pins(r#"{"s__a":"1","s__b":"3"}"#));
    }
}
