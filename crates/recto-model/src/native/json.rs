//! Values of Rust types that are stored as JSON text.

use std::ops::{Deref, DerefMut};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FieldType, malformed};
use crate::Type;
use crate::cell::CellError;

/// A value that is stored as its JSON: a text field that holds what serde writes. For structs, enums with data, and
/// `serde_json::Value`; its parts cannot be filtered by.
///
/// Two values are the same field if serde writes the same text of them: of a `HashMap` it may write another at each
/// time, so take a `BTreeMap` in records that are never changed. Only serde reads the text again: its numbers are what
/// serde makes of them, and a field that the Rust type gains needs `#[serde(default)]` to read what was stored before.
///
/// # Errors
/// As those of other fields, where a record is put or read: serde cannot write the value (a map whose keys are no
/// texts), or what is stored is no JSON of the type.
///
/// What serde writes as `null` is the text `null`; a field that may be null is an `Option<Json<T>>`.
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
            malformed::<Self>(&format!("no JSON can be made of it: {error}"))
        })?;
        Ok(true)
    }

    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        let text = cell.ok_or_else(super::null::<Self>)?;
        serde_json::from_slice(text)
            .map(Self)
            .map_err(|error| malformed::<Self>(&format!("no JSON of the Rust type: {error}")))
    }
}
