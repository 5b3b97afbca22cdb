//! Where inputs are kept: `fuzz/corpus/TARGET/`, a file each, named by its content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The longest input that is kept or made, in bytes.
pub const MAX_INPUT_BYTES: usize = 4_096;

/// The folder of a target's corpus.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Where inputs that broke a property are put.
pub fn failures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("failures")
}

/// A target's inputs with their names, in the order of the names.
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

/// Keeps an input in `folder` under the name of its content; returns where.
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
