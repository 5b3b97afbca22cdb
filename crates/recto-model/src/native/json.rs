//! Values of Rust types that are stored as JSON text.

use std::ops::{Deref, DerefMut};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FieldType, malformed};
use crate::Type;
use crate::cell::CellError;

/// Value that is stored as JSON text, in a text field. Use it for structs, enums with data, and
/// `serde_json::Value`. Filters cannot access parts of the value.
///
/// Two values are the same field value if serde writes the same text for both. The text of a
/// `HashMap` can differ each time, so use a `BTreeMap` in records that never change. Only serde
/// interprets the text: it determines the precision of numbers. A new field of the Rust type needs
/// `#[serde(default)]`, so that serde can read older texts.
///
/// # Errors
/// Writing a record fails if serde cannot write the value, for example a map whose keys are not
/// texts. Reading fails if the stored text is not JSON of the type. The error types are those of
/// all fields.
///
/// A value that serde writes as `null` is stored as the text `null`. For a field that may be null, use
/// `Option<Json<T>>`.
///
/// ```
/// use recto_model::native::{FieldType, Json};
///
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Address {
///     street: String,
///     number: u32,
/// }
///
/// let field = Json(Address { street: "High".into(), number: 7 });
/// let mut cell = Vec::new();
/// field.write_cell(&mut cell)?;
/// assert_eq!(cell, br#"{"street":"High","number":7}"#);
/// assert_eq!(Json::<Address>::read_cell(Some(&cell))?, field);
/// assert_eq!(field.street, "High");
/// # Ok::<(), recto_model::cell::CellError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Json<T>(pub T);

impl<T> From<T> for Json<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Json<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Json<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Serialize + DeserializeOwned> FieldType for Json<T> {
    fn field_type() -> Type {
        Type::Text
    }

    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        let start = out.len();
        serde_json::to_writer(&mut *out, &self.0).map_err(|error| {
            out.truncate(start);
            malformed::<Self>(&format!("it cannot be written as JSON: {error}"))
        })?;
        Ok(true)
    }

    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        let text = cell.ok_or_else(super::null::<Self>)?;
        serde_json::from_slice(text)
            .map(Self)
            .map_err(|error| malformed::<Self>(&format!("it is not JSON of the Rust type: {error}")))
    }
}
