//! Substitute for `zstd` in a build that cannot read .zst files.

use std::io::{self, BufRead};

/// Rejects a .zst file.
///
/// # Errors
/// Always: this build does not read .zst files.
pub(super) fn reader<R: BufRead>(_: R) -> io::Result<R> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this build of Recto reads no .zst files",
    ))
}
