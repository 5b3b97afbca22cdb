//! Physical changes of one transaction: puts and removals of keys in tables of the engine.

use recto_store::StoreError;

use crate::error::corrupt;

/// Maximum number of bytes of the changes in one record of the log. A larger transaction is committed
/// durably, without a record.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// First byte of a change: the table of the following changes.
const TABLE: u8 = 0;
/// First byte of a change: a key gets a value.
const PUT: u8 = 1;
/// First byte of a change: a key is removed.
const REMOVAL: u8 = 2;

/// Changes of a transaction, in the order in which it made them.
#[derive(Debug)]
pub(crate) struct Changes {
    bytes: Vec<u8>,
    count: u64,
    /// Table of the last change.
    table: String,
    /// False if the changes can have no record: they are not recorded, incomplete, too many, or change the
    /// schema.
    is_complete: bool,
}

impl Changes {
    pub(crate) fn recorded() -> Self {
        Self {
            bytes: Vec::new(),
            count: 0,
            table: String::new(),
            is_complete: true,
        }
    }

    /// Returns changes that are not recorded.
    pub(crate) fn unrecorded() -> Self {
        Self {
            is_complete: false,
            ..Self::recorded()
        }
    }

    /// Returns the bytes of all changes. Returns `None` if they can have no record.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        self.is_complete.then_some(self.bytes.as_slice())
    }

    /// Number of puts and removals.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Ends the record, because the engine may have made other changes than recorded, or a change of the
    /// schema.
    pub(crate) fn give_up(&mut self) {
        self.is_complete = false;
        self.bytes = Vec::new();
    }

    pub(crate) fn put(&mut self, table: &str, key: &[u8], value: &[u8]) {
        if self.begin(table, key.len() + value.len()) {
            self.bytes.push(PUT);
            push_length(key, &mut self.bytes);
            push_length(value, &mut self.bytes);
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(value);
        }
    }

    pub(crate) fn remove(&mut self, table: &str, key: &[u8]) {
        if self.begin(table, key.len()) {
            self.bytes.push(REMOVAL);
            push_length(key, &mut self.bytes);
            self.bytes.extend_from_slice(key);
        }
    }

    /// Begins a change with `bytes` of data. Returns whether the change is recorded.
    fn begin(&mut self, table: &str, bytes: usize) -> bool {
        /// Maximum number of bytes of a change in addition to its data and its table.
        const CHANGE_BYTES: usize = 1 + 2 + 1 + 4 + 4;
        if !self.is_complete {
            return false;
        }
        if self.bytes.len() + table.len() + bytes + CHANGE_BYTES > MAX_RECORD_BYTES {
            self.give_up();
            return false;
        }
        if self.table != table || self.count == 0 {
            self.bytes.push(TABLE);
            self.bytes.extend_from_slice(&(table.len() as u16).to_le_bytes());
            self.bytes.extend_from_slice(table.as_bytes());
            table.clone_into(&mut self.table);
        }
        self.count += 1;
        true
    }
}

fn push_length(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
}

/// One change, as a record contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) table: &'a str,
    pub(crate) key: &'a [u8],
    /// New value, or `None` if the key is removed.
    pub(crate) value: Option<&'a [u8]>,
}

/// Reader of the changes of a record.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    table: &'a str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            table: "",
        }
    }

    /// Returns the next change, or `None` at the end.
    ///
    /// # Errors
    /// `Corrupt`: the bytes are no changes, although the checksum of their record is valid.
    pub(crate) fn next(&mut self) -> Result<Option<Change<'a>>, StoreError> {
        loop {
            let Some((kind, rest)) = self.rest.split_first() else {
                return Ok(None);
            };
            self.rest = rest;
            match *kind {
                TABLE => {
                    let (length, rest) = self.rest.split_first_chunk().ok_or_else(invalid)?;
                    self.rest = rest;
                    let name = self.take(usize::from(u16::from_le_bytes(*length)))?;
                    self.table = std::str::from_utf8(name).map_err(|_| invalid())?;
                }
                PUT => {
                    let (key, value) = (self.length()?, self.length()?);
                    let key = self.take(key)?;
                    return Ok(Some(Change {
                        table: self.table,
                        key,
                        value: Some(self.take(value)?),
                    }));
                }
                REMOVAL => {
                    let key = self.length()?;
                    return Ok(Some(Change {
                        table: self.table,
                        key: self.take(key)?,
                        value: None,
                    }));
                }
                _ => return Err(invalid()),
            }
        }
    }

    fn length(&mut self) -> Result<usize, StoreError> {
        let (length, rest) = self.rest.split_first_chunk().ok_or_else(invalid)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*length) as usize)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], StoreError> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(invalid)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cold]
fn invalid() -> StoreError {
    corrupt("a record of the commit log has a valid checksum, but invalid content")
}
