//! JSON that the server stored and reads back.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ApiError, ApiErrorCode};

/// Reads a stored value; none where there is none. One that cannot be read is logged, and an error that names it.
pub(crate) fn read_stored<T: DeserializeOwned>(
    stored: Option<&Value>,
    name: &str,
) -> Result<Option<T>, ApiError> {
    let Some(stored) = stored.filter(|stored| !stored.is_null()) else { return Ok(None) };
    T::deserialize(stored).map(Some).map_err(|error| {
        tracing::error!("the stored {name} cannot be read: {error}");
        ApiError::with_message(
            ApiErrorCode::Internal,
            format!("the stored {name} cannot be read: {error}"),
            format!("저장된 {name}을(를) 읽을 수 없습니다: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_none_and_what_is_damaged_is_an_error_that_names_it() {
        let read =
            |stored: Option<Value>| read_stored::<Vec<u32>>(stored.as_ref(), "`stream_mode` of run `r`");
        assert_eq!(read(None).expect("nothing"), None);
        assert_eq!(read(Some(Value::Null)).expect("nothing"), None);
        assert_eq!(read(Some(json!([1, 2]))).expect("a value"), Some(vec![1, 2]));
        let error = read(Some(json!("damaged"))).expect_err("unreadable");
        let (code, text) = (error.code, error.to_json().to_string());
        assert_eq!(code, ApiErrorCode::Internal);
        assert!(text.contains("the stored `stream_mode` of run `r` cannot be read: invalid type"), "{text}");
    }
}
