//! Storage of inputs: `fuzz/corpus/TARGET/` with one file per input, named by the digest of its
//! content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size of an input, in bytes.
pub const MAX_INPUT_BYTES: usize = 4_096;

/// Returns the folder of a target's corpus.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Returns the folder of inputs that broke a property.
pub fn failures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("failures")
}

/// Returns a target's inputs and their names, in the order of the names.
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

/// Writes an input to `folder` under a name with its digest. Returns the path.
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
