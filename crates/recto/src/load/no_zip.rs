//! Substitute for `zip` in a build that cannot read .zip files.

use std::io::{self, Read};

use super::source::{Format, Source};
use crate::error::Result;

/// Rejects a .zip file.
///
/// # Errors
/// Always: this build does not read .zip files.
pub(super) fn read<F>(
    source: &Source,
    _: F,
    _: impl FnOnce(Format, &mut dyn Read) -> Result<()>,
) -> Result<()> {
    Err(source.read_error(io::Error::new(
        io::ErrorKind::Unsupported,
        "this build of Recto reads no .zip files",
    )))
}
