//! The points at which a process is cut off, each by the calls to the store that lead there.

use recto_model::Slice;
use recto_store::{Cas, Operation, PartitionWrite};

use crate::cut::{Point, point};

/// A call, by what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Bucket 0 is marked.
    Root,
    /// The directory is changed.
    Directory,
    /// Rows are written: those of a client, or copied ones.
    Rows,
    /// Samples are.
    Samples,
    /// What a bucket has of a part that was left is deleted.
    Range,
    /// Rows are read.
    Page,
    /// A table is emptied: none is.
    Empty,
    /// Something else.
    Other,
}

/// What the process does that is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Cuts the partition, and clears what was left.
    Cut,
    /// Puts a row.
    Put,
    /// Sets a part of a row that is there.
    Patch,
    /// Deletes a row that is there.
    Delete,
    /// Reads all rows as one page.
    Page,
}

use Call::{Directory, Page, Range, Root, Rows, Samples};

/// All of them.
pub(crate) const POINTS: [Point; 16] = [
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
    point("put", Does::Put, &[Rows]),
    point("patch", Does::Patch, &[Rows]),
    point("delete", Does::Delete, &[Rows]),
    point("page", Does::Page, &[Page]),
];

impl Call {
    /// A plain write.
    pub(crate) fn write(write: &PartitionWrite) -> Self {
        let has = |is: fn(&Operation) -> bool| write.mutations.iter().any(|one| is(&one.operation));
        match write.table.name() {
            "recto_samples" => Self::Samples,
            _ if has(|one| matches!(one, Operation::PatchStatic { .. })) => Self::Root,
            _ if has(|one| matches!(one, Operation::DeleteRange { .. })) => Self::Range,
            _ => Self::Rows,
        }
    }

    /// A slice.
    pub(crate) fn read(slice: &Slice) -> Self {
        if slice.table.name().starts_with("recto_") {
            Self::Other
        } else {
            Self::Page
        }
    }

    /// A conditional write.
    pub(crate) fn cas(_: &Cas) -> Self {
        Self::Directory
    }
}
