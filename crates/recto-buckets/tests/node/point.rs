//! Points at which the tests interrupt a process. The calls to the store that precede a point identify it.

use recto_model::Slice;
use recto_store::{Cas, Operation, PartitionWrite};

use crate::cut::{Point, point};

/// Kind of a call to the store, by the data that it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Marks bucket 0.
    Root,
    /// Changes the range map.
    Directory,
    /// Writes rows of a client, or rows that a split copies.
    Rows,
    /// Writes samples.
    Samples,
    /// Deletes the rows of a key range from the old bucket of a split.
    Range,
    /// Reads rows.
    Page,
    /// Empties a table. The engine never does this.
    Empty,
    /// Any other call.
    Other,
}

/// Operation of the process that is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Splits the partition, and clears old buckets.
    Cut,
    /// Joins all buckets of a split partition, and clears old buckets.
    Join,
    /// Puts a row.
    Put,
    /// Overwrites one column of an existing row.
    Patch,
    /// Deletes an existing row.
    Delete,
    /// Reads all rows as one page.
    Page,
}

use Call::{Directory, Page, Range, Root, Rows, Samples};

/// All points at which the tests interrupt a process.
pub(crate) const POINTS: [Point; 24] = [
    point("mark-root", Does::Cut, &[Root]),
    point("takes-deletions", Does::Cut, &[Directory]),
    point("takes-writes", Does::Cut, &[Directory, Directory]),
    point("copies-samples", Does::Cut, &[Directory, Directory, Samples]),
    point("copies-first-rows", Does::Cut, &[Directory, Directory, Rows]),
    point(
        "copies-in-the-middle",
        Does::Cut,
        &[Directory, Directory, Rows, Rows, Rows],
    ),
    point("is-read", Does::Cut, &[Directory, Directory, Rows, Directory]),
    point(
        "is-left",
        Does::Cut,
        &[Directory, Directory, Rows, Directory, Directory],
    ),
    point(
        "copies-what-was-left",
        Does::Cut,
        &[Directory, Directory, Rows, Directory, Directory, Rows],
    ),
    point("deletes-what-was-left", Does::Cut, &[Range]),
    point("deletes-in-the-middle", Does::Cut, &[Range, Range]),
    point("is-cleared", Does::Cut, &[Range, Directory]),
    point("join-takes-deletions", Does::Join, &[Directory]),
    point("join-takes-writes", Does::Join, &[Directory, Directory]),
    point("join-copies", Does::Join, &[Directory, Directory, Rows]),
    point(
        "join-is-read",
        Does::Join,
        &[Directory, Directory, Rows, Directory],
    ),
    point(
        "join-is-left",
        Does::Join,
        &[Directory, Directory, Rows, Directory, Directory],
    ),
    point("join-deletes-in-the-middle", Does::Join, &[Range, Range]),
    point("join-is-cleared", Does::Join, &[Range, Directory]),
    point("join-removes-edges", Does::Join, &[Range, Directory, Directory]),
    point("put", Does::Put, &[Rows]),
    point("patch", Does::Patch, &[Rows]),
    point("delete", Does::Delete, &[Rows]),
    point("page", Does::Page, &[Page]),
];

impl Call {
    /// Returns the kind of call that a plain write is.
    pub(crate) fn write(write: &PartitionWrite) -> Self {
        let has = |is: fn(&Operation) -> bool| write.mutations.iter().any(|one| is(&one.operation));
        match write.table.name() {
            "recto_samples" => Self::Samples,
            _ if has(|one| matches!(one, Operation::PatchStatic { .. })) => Self::Root,
            _ if has(|one| matches!(one, Operation::DeleteRange { .. })) => Self::Range,
            _ => Self::Rows,
        }
    }

    /// Returns the kind of call that a read of a slice is.
    pub(crate) fn read(slice: &Slice) -> Self {
        if slice.table.name().starts_with("recto_") {
            Self::Other
        } else {
            Self::Page
        }
    }

    /// Returns the kind of call that a conditional write is.
    pub(crate) fn cas(_: &Cas) -> Self {
        Self::Directory
    }
}
