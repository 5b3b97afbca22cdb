//! Kinds of the errors that Recto returns.

/// Kind of an error. Callers use it to decide how to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The filter, the sort or the requested page is invalid.
    InvalidQuery,
    /// No view serves the query. The hint names a view that would serve it.
    NoPlan,
    /// The page token or cursor cannot be decrypted: it was altered, has expired, or was made for
    /// another query or with another key.
    InvalidCursor,
    /// A record, key or value is invalid for its collection.
    InvalidRecord,
    /// The schema text is invalid.
    InvalidSchema,
    /// The store has another schema than the program, or none.
    SchemaMismatch,
    /// The request is valid, but this release does not implement it.
    Unsupported,
    /// The collection does not allow this operation in its write mode (`writes`). Nothing was
    /// written.
    NotOffered,
    /// An option, address or file is invalid.
    InvalidArgument,
    /// The collection, record or file does not exist.
    NotFound,
    /// The store is unreachable, or another process has opened it exclusively.
    Unavailable,
    /// The time limit was exceeded.
    Timeout,
    /// A write with an unknown outcome: the store may have applied it, or may still apply it.
    /// Repeating the write resolves the outcome.
    OutcomeUnknown,
    /// The credentials for the store are missing, wrong, or do not allow the request.
    Unauthorized,
    /// The session's row filter does not allow the request.
    Forbidden,
    /// A stored record has a value that the program's record type cannot represent: an unknown
    /// variant of an enum, a null in a field that is not an `Option`, or JSON of another shape. The
    /// record is not damaged. The error contains its key and the field.
    Unreadable,
    /// Stored data is damaged, or has a version that this release cannot read.
    Corrupt,
    /// A put was rejected because of another record. Either an append collection already has a
    /// different record with this key, or another record has the same values of unique fields.
    Conflict,
    /// An insert found a record with its key. The error contains the version of that record.
    /// Nothing was written.
    Exists,
    /// The record to change does not exist, or does not have the version that the request names.
    /// Nothing was written.
    Changed,
    /// The request exceeds a limit. Nothing was written.
    LimitExceeded,
    /// The maximum number of messages of a queue is in flight. Nothing was received.
    TooManyInFlight,
    /// Reading or writing a file failed.
    Io,
    /// The store failed for a reason that no other kind describes.
    Store,
}
