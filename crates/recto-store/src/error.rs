//! Why a store call failed.

use std::error::Error;
use std::fmt;

use recto_api::ErrorKind;

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot be reached, or too few replicas are alive.
    Unavailable,
    /// Whoever uses the store closed it: it is not asked again.
    Closed,
    /// The deadline passed.
    Timeout,
    /// The store is taken by another process, or the schema by another writer.
    Conflict,
    /// Where rows of buckets lie was learned after the stamps of the write were taken, or after what it
    /// [rests on](crate::WriteOptions::looked_nanos) was read: begin again, with newer ones.
    Moved,
    /// Credentials are missing, wrong, or may not do this.
    Unauthorized,
    /// A read crossed more tombstones than the store allows.
    Tombstones,
    /// There is no such table, or it has other columns than the caller thinks.
    Table,
    /// What the store holds is damaged.
    Corrupt,
    /// What the store holds was written by another version that this one cannot read.
    Version,
    /// The disk is full, or the operating system refused.
    Storage,
    /// The request is one the store cannot serve; a defect of the caller.
    Invalid,
    /// Anything else.
    Other,
}

/// Why a store call failed, with what to do about it.
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
    /// An error of `kind` that says `message`.
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

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds which node was asked, `address:port`. The message does not hold it: it is for logs.
    #[must_use]
    pub fn with_node(mut self, node: impl Into<Box<str>>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Adds which table it was about, unless that was said before.
    #[must_use]
    pub fn with_table(mut self, table: &str) -> Self {
        self.table.get_or_insert_with(|| table.into());
        self
    }

    /// Says before the message what it was about.
    #[must_use]
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The node that was asked last, `address:port`, if one was.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// The table that was read or written.
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
