//! Storage of fuzz inputs: `fuzz/corpus/TARGET/` has one file per input, whose name contains the digest of
//! the content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size of an input, in bytes.
pub const MAX_INPUT_BYTES: usize = 4_096;

/// Returns the folder of a target's corpus.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Returns the folder for inputs for which a property did not hold.
pub fn failures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("failures")
}

/// Returns the names and contents of all inputs in a target's corpus, sorted by name.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn read(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder(target))? {
        let entry = entry?;
        inputs.push((
            entry.file_name().to_string_lossy().into_owned(),
            fs::read(entry.path())?,
        ));
    }
    inputs.sort();
    Ok(inputs)
}

/// Writes an input to a file in `folder`. The file name consists of the target and the digest. Returns the
/// path.
///
/// # Errors
/// The file cannot be written.
pub fn keep(folder: &Path, target: &str, input: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let digest = blake3::hash(input).to_hex();
    let path = folder.join(format!("{target}-{}", &digest.as_str()[..16]));
    fs::write(&path, input)?;
    Ok(path)
}
