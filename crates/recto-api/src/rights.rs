//! Rights that the access token of a client can have.

/// Right of an access token in a collection, for a queue, or for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Right {
    /// Read records and pages, explain queries, and read the state and the messages of a queue.
    Read,
    /// Read all records of a collection at once.
    Export,
    /// Put, insert and update records of a collection.
    Write,
    /// Delete records of a collection.
    Delete,
    /// Create a backup of the store.
    Backup,
    /// Return unused space of the store to the file system.
    Compact,
    /// Check the whole store for damage.
    Check,
    /// Compare views with records that the token may read.
    Verify,
    /// Repair views of records that the token may write.
    Repair,
    /// Load files into collections that the token may write.
    Load,
    /// Change the schema, and see all of it.
    Apply,
    /// List the keys of page tokens, and add one.
    CursorKeys,
    /// Send messages to a queue.
    Send,
    /// Receive and settle messages of a queue.
    Receive,
    /// Create, change and delete a queue, and remove its messages.
    Manage,
}

impl Right {
    /// Rights that a token can have in a collection.
    pub const OF_COLLECTION: [Self; 4] = [Self::Read, Self::Export, Self::Write, Self::Delete];
    /// Rights that a token can have for the store.
    pub const OF_STORE: [Self; 8] = [
        Self::Backup,
        Self::Compact,
        Self::Check,
        Self::Verify,
        Self::Repair,
        Self::Load,
        Self::Apply,
        Self::CursorKeys,
    ];
    /// Rights that a token can have for a queue.
    pub const OF_QUEUE: [Self; 4] = [Self::Read, Self::Send, Self::Receive, Self::Manage];

    /// Returns whether all requests that need this right change the store. [`Apply`](Self::Apply) and
    /// [`CursorKeys`](Self::CursorKeys) also allow requests that only read.
    pub fn changes(self) -> bool {
        match self {
            Self::Write
            | Self::Delete
            | Self::Compact
            | Self::Repair
            | Self::Load
            | Self::Send
            | Self::Receive
            | Self::Manage => true,
            Self::Read
            | Self::Export
            | Self::Backup
            | Self::Check
            | Self::Verify
            | Self::Apply
            | Self::CursorKeys => false,
        }
    }

    /// Returns the name of the right, as a token's grant has it, such as `read`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Export => "export",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Backup => "backup",
            Self::Compact => "compact",
            Self::Check => "check",
            Self::Verify => "verify",
            Self::Repair => "repair",
            Self::Load => "load",
            Self::Apply => "apply",
            Self::CursorKeys => "cursor-keys",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Manage => "manage",
        }
    }
}
