//! Records as Rust types: the trait that `#[derive(Record)]` implements.

use std::fmt;
use std::marker::PhantomData;

use crate::RowRef;
use crate::cell::CellError;
use crate::native::FieldType;
use crate::schema::Collection;

/// Column index that means "the row lacks this field" in the column list of [`Record::read`].
pub const NO_COLUMN: u16 = u16::MAX;

/// Rust type whose values are the records of one collection. Derive it: `#[derive(Record)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a record",
    note = "derive it: `#[derive(Record)]` with `#[record(collection = \"…\", key = [\"…\"])]`"
)]
pub trait Record: Sized {
    /// Struct with a [`TypedField`] for each field of the record type. The members have the names and
    /// visibilities of the fields.
    type Fields;

    /// Typed names of the fields. The compiler checks with them that the values of an update have
    /// the fields' types: `tickets.update(7).set(Ticket::FIELDS.status, Status::Closed)`.
    const FIELDS: Self::Fields;

    /// Returns the collection as the record type declares it.
    ///
    /// # Panics
    /// If the declaration violates a rule of the schema language that the derive macro cannot
    /// check, such as a limit. Every call then panics, so a test that calls the function once
    /// detects the violation.
    fn collection() -> Collection;

    /// Returns the names of the fields, in the order of the collection's fields.
    fn field_names() -> &'static [&'static str];

    /// Decodes the record in `row`. The cell of field `i` is at index `columns[i]` of the row.
    /// [`NO_COLUMN`] means that the row lacks the field, whose type must then be an `Option`.
    ///
    /// # Errors
    /// [`RecordError`] with the name of the field that is missing or invalid.
    ///
    /// # Panics
    /// If `columns` has fewer entries than the record has fields, or an index outside the row.
    fn read(row: RowRef<'_>, columns: &[u16]) -> Result<Self, RecordError>;

    /// Appends the cell (encoded value) of the field with index `field` to `out`. For null, appends
    /// nothing and returns false.
    ///
    /// # Errors
    /// [`CellError`] for a value outside the domain of its type. On error, nothing is appended.
    ///
    /// # Panics
    /// If `field` is not less than the number of fields.
    fn write(&self, field: usize, out: &mut Vec<u8>) -> Result<bool, CellError>;

    /// Checks that the Rust type of the field with index `field` can express the value of a cell.
    /// `None` is null.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    ///
    /// # Panics
    /// If `field` is not less than the number of fields.
    fn check_cell(field: usize, cell: Option<&[u8]>) -> Result<(), RecordError>;
}

/// Field of the record type `R`, with its Rust type `V`, for updates, filters and sorts that the
/// compiler checks.
pub struct TypedField<R, V> {
    name: &'static str,
    types: PhantomData<fn(R) -> V>,
}

impl<R, V> TypedField<R, V> {
    /// Returns the field of this name, for the derived [`Record::FIELDS`].
    #[doc(hidden)]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            types: PhantomData,
        }
    }

    /// Returns the name of the field in the collection.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<R, V> Clone for TypedField<R, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, V> Copy for TypedField<R, V> {}

impl<R, V> fmt::Debug for TypedField<R, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedField").field(&self.name).finish()
    }
}

/// Converts the field to its name in the collection, for filters and sorts.
impl<R, V> From<TypedField<R, V>> for String {
    fn from(field: TypedField<R, V>) -> Self {
        field.name.to_owned()
    }
}

/// Error for a row that cannot be decoded as a record type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The field is null, or not in the row, and its type is not an `Option`.
    #[error("field `{field}` is null, which only an Option can hold")]
    Missing {
        /// Name of the field.
        field: &'static str,
    },
    /// The field's stored bytes are not a value of its type.
    #[error("field `{field}`: {source}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Error of the conversion of the bytes.
        source: CellError,
    },
}

impl RecordError {
    /// Returns the name of the field that is missing or invalid.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Missing { field } | Self::Field { field, .. } => field,
        }
    }
}

/// Decodes one field of a record. The derived [`Record::read`] calls this function for each field.
#[inline]
pub fn read_field<T: FieldType>(row: RowRef<'_>, column: u16, field: &'static str) -> Result<T, RecordError> {
    let cell = if column == NO_COLUMN {
        None
    } else {
        row.get(usize::from(column))
    };
    read_cell(cell, field)
}

/// Checks that one field of a record can be decoded. The derived [`Record::check_cell`] calls this
/// function.
pub fn check_field<T: FieldType>(cell: Option<&[u8]>, field: &'static str) -> Result<(), RecordError> {
    read_cell::<T>(cell, field).map(drop)
}

#[inline]
fn read_cell<T: FieldType>(cell: Option<&[u8]>, field: &'static str) -> Result<T, RecordError> {
    if cell.is_none() && !T::NULLABLE {
        return Err(RecordError::Missing { field });
    }
    T::read_cell(cell).map_err(|source| RecordError::Field { field, source })
}
