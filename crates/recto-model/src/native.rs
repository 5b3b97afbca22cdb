//! Rust types as fields: what `#[derive(Record)]` builds on.

use crate::Type;
use crate::cell::CellError;

/// A Rust type that can be a field of a record.
pub trait FieldType: Sized {
    /// The field's type in the schema.
    fn field_type() -> Type;
    /// Whether the field may be null (true for `Option<T>` only).
    const NULLABLE: bool = false;
    /// Appends the cell's bytes to `out`; returns false, having appended nothing, for null.
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError>;
    /// The value of a cell.
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError>;
}
