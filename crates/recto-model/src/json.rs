//! Record JSON: one mapping between values and JSON for HTTP, command line and files.

use crate::{Type, Value};

/// Why JSON is not a value of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct JsonError {
    /// What the type takes, e.g. `a timestamp such as "2013-01-01T10:00:00Z"`.
    pub expected: String,
    /// What stood there, shortened.
    pub found: String,
}

/// The JSON of `value`.
pub fn to_json(ty: &Type, value: &Value) -> serde_json::Value {
    let _ = (ty, value);
    todo!()
}

/// The value of `json`; `None` for null.
pub fn from_json(ty: &Type, json: &serde_json::Value) -> Result<Option<Value>, JsonError> {
    let _ = (ty, json);
    todo!()
}

/// The value that `text` writes for `ty`: what stands in a CSV cell or a filter's string literal.
/// Scalars as in record JSON without the quotes; nested values as JSON.
pub fn from_text(ty: &Type, text: &str) -> Result<Value, JsonError> {
    let _ = (ty, text);
    todo!()
}

/// The text of `value`: what a CSV cell or a terminal table shows. The inverse of [`from_text`].
pub fn to_text(ty: &Type, value: &Value) -> String {
    let _ = (ty, value);
    todo!()
}
