//! Kinds of errors.

/// Kind of a failure. Callers use it to decide how to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The filter, the sort or the requested page is invalid.
    InvalidQuery,
    /// No view serves the query. The hint names a view that would serve it.
    NoPlan,
    /// The cursor cannot be opened: it was altered, has expired, or was made for another query or with another key.
    InvalidCursor,
    /// A record, key or value is invalid.
    InvalidRecord,
    /// The schema text is invalid.
    InvalidSchema,
    /// The store has another schema, or none.
    SchemaMismatch,
    /// The request is valid, but this release does not support it yet.
    Unsupported,
    /// The write mode of the collection (`writes`) does not have this operation. Nothing was written.
    NotOffered,
    /// An option, address or file is invalid.
    InvalidArgument,
    /// The collection, record or file does not exist.
    NotFound,
    /// The store is unreachable, or another process holds it.
    Unavailable,
    /// The time limit was exceeded.
    Timeout,
    /// A write may or may not have been applied, now or later. Repeating it resolves the outcome.
    OutcomeUnknown,
    /// Credentials are missing, wrong, or do not allow the request.
    Unauthorized,
    /// The session's row filter does not allow the request.
    Forbidden,
    /// A stored record has a value that the record type cannot represent: the name of a variant that an enum does not
    /// have, a null in a field that is not an `Option`, or JSON of another shape. The record is not damaged. The error
    /// names its key and the field.
    Unreadable,
    /// Stored data is damaged, or has a version that this release cannot read.
    Corrupt,
    /// In a collection whose records never change, another record has the key of a record that was put. Or another
    /// record has the values of unique fields. Nothing was written.
    Conflict,
    /// An insert found a record with its key. The error has the version of that record. Nothing was written.
    Exists,
    /// A record does not exist, or does not have the requested version. Nothing was written.
    Changed,
    /// A limit was exceeded; nothing was written.
    LimitExceeded,
    /// The maximum number of messages of a queue is in flight. Nothing was received.
    TooManyInFlight,
    /// Reading or writing a file failed.
    Io,
    /// The store failed for another reason.
    Store,
}
