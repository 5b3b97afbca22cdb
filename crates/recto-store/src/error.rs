//! Errors of store calls.

use std::error::Error;
use std::fmt;

use recto_api::ErrorKind;

/// Kind of failure of a store call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot be reached, or too few replicas are alive.
    Unavailable,
    /// This process has closed the store. Further calls fail.
    Closed,
    /// The deadline of the call passed.
    Timeout,
    /// Another process has the store open, or another writer changes the schema.
    Conflict,
    /// A split moved rows to other buckets (parts of a partition). The store learned of the split only after
    /// the timestamps of the write were chosen, or after the data was read on which the write
    /// [depends](crate::WriteOptions::looked_nanos). Read again and repeat the write with newer timestamps.
    Moved,
    /// Credentials are missing, wrong, or lack a permission.
    Unauthorized,
    /// A read crossed more tombstones (deleted data that is still stored) than the store allows.
    Tombstones,
    /// The table does not exist, or its columns differ from those that the caller expects.
    Table,
    /// The stored data is damaged.
    Corrupt,
    /// Another version of Recto wrote the stored data, and this version cannot read it.
    Version,
    /// The disk is full, or the operating system reported an error.
    Storage,
    /// The request is not valid for this store. This is a defect of the caller.
    Invalid,
    /// Any other failure.
    Other,
}

/// Error of a store call, with a hint for the user.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    hint: Option<String>,
    node: Option<Box<str>>,
    table: Option<Box<str>>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error with this kind and message.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            node: None,
            table: None,
            source: None,
        }
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the node that received the request, as `address:port`. The node is for logs, and not part of the
    /// message.
    #[must_use]
    pub fn with_node(mut self, node: impl Into<Box<str>>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Adds the name of the table, unless the error already has one.
    #[must_use]
    pub fn with_table(mut self, table: &str) -> Self {
        self.table.get_or_insert_with(|| table.into());
        self
    }

    /// Prefixes the message with `what`: the operation or object that the error concerns.
    #[must_use]
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Adds the underlying error as the [source](Error::source) of this error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns advice for the user.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns the node that received the last request, as `address:port`, if there was one.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Returns the name of the table that was read or written.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}

impl From<StoreError> for recto_api::Error {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::Closed | StoreErrorKind::Conflict => {
                ErrorKind::Unavailable
            }
            StoreErrorKind::Timeout => ErrorKind::Timeout,
            StoreErrorKind::Unauthorized => ErrorKind::Unauthorized,
            StoreErrorKind::Corrupt | StoreErrorKind::Version => ErrorKind::Corrupt,
            StoreErrorKind::Invalid => ErrorKind::InvalidArgument,
            _ => ErrorKind::Store,
        };
        let mut converted = Self::new(kind, error.to_string());
        if let Some(hint) = error.hint() {
            converted = converted.with_hint(hint);
        }
        converted.with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_what_why_and_what_to_do() {
        let cause = std::io::Error::other("no space left");
        let error = StoreError::new(StoreErrorKind::Storage, "the disk is full")
            .with_hint("free some space")
            .with_node("10.0.0.1:9042")
            .with_table("orders")
            .with_table("never mind")
            .with_source(cause);
        assert_eq!(error.kind(), StoreErrorKind::Storage);
        assert_eq!(error.to_string(), "the disk is full");
        assert_eq!(error.hint(), Some("free some space"));
        assert_eq!(
            (error.node(), error.table()),
            (Some("10.0.0.1:9042"), Some("orders"))
        );
        let source = error.source().map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("no space left"));
        assert_eq!(error.about("store x").to_string(), "store x: the disk is full");
    }

    #[test]
    fn hint_and_source_are_optional() {
        let error = StoreError::new(StoreErrorKind::Other, "x");
        assert!(error.hint().is_none() && error.source().is_none());
    }
}
