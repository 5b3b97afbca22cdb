//! The kinds of errors.

/// The kind of a failure, by which a caller decides how to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The filter, the sort or the page asked for is not right.
    InvalidQuery,
    /// No view serves the query; the hint holds the one that would.
    NoPlan,
    /// The cursor cannot be opened: altered, expired, or made for another query or with another key.
    InvalidCursor,
    /// A record, key or value is not right.
    InvalidRecord,
    /// The schema text is not right.
    InvalidSchema,
    /// The store holds another schema, or none.
    SchemaMismatch,
    /// The request is part of the language and not yet supported by this release.
    Unsupported,
    /// The collection is written in another way (`writes`), which does not have this; nothing was written.
    NotOffered,
    /// An option, address or file given is not right.
    InvalidArgument,
    /// There is no such collection, record or file.
    NotFound,
    /// The store cannot be reached, or is taken by another process.
    Unavailable,
    /// The time given was not enough.
    Timeout,
    /// A write may or may not have been applied, now or later. Repeating it settles it.
    OutcomeUnknown,
    /// Credentials are missing, wrong, or may not do this.
    Unauthorized,
    /// The session's row filter does not allow it.
    Forbidden,
    /// A stored record has a value that the record type cannot represent: the name of a variant that an enum does not
    /// have, a null where the field is no `Option`, JSON of another shape. The record is not damaged; the error names its
    /// key and the field.
    Unreadable,
    /// Stored data is damaged, or has a version that this release cannot read.
    Corrupt,
    /// Another record is there with the key of one that was put, in a collection whose records are
    /// never changed; or another has the values of fields that are unique. Nothing was written.
    Conflict,
    /// An insert found a record with its key, whose version the error names; nothing was written.
    Exists,
    /// A record is not of the version that was asked for, but has another, or is not there;
    /// nothing was written.
    Changed,
    /// A limit was exceeded; nothing was written.
    LimitExceeded,
    /// As many messages of a queue are in flight as its options allow; nothing was received.
    TooManyInFlight,
    /// Reading or writing a file failed.
    Io,
    /// The store failed in another way.
    Store,
}
