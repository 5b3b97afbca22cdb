//! Reading of .zip files, in builds with the feature `full`.

use std::io::{BufReader, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::source::{Counted, ENDINGS, Format, Source};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of entries of an archive that an error message lists.
const MAX_LISTED_ENTRIES: usize = 10;

/// Calls `read` with the format and the text of the only file in an archive that can be loaded.
pub(super) fn read(
    source: &Source,
    file: BufReader<Counted>,
    read: impl FnOnce(Format, &mut dyn Read) -> Result<()>,
) -> Result<()> {
    let mut archive = ZipArchive::new(file).map_err(|error| zip_error(source, error))?;
    let mut loadable = Vec::new();
    let mut others = Vec::new();
    for index in 0..archive.len() {
        let entry = archive
            .by_index_raw(index)
            .map_err(|error| zip_error(source, error))?;
        let name = entry
            .name()
            .map_err(|error| zip_error(source, error))?
            .into_owned();
        // Skip `__MACOSX/`, where macOS stores additional data of each file.
        if !entry.is_file() || name.starts_with("__MACOSX/") {
            continue;
        }
        match Format::of_name(&name) {
            Some(format) => loadable.push((index, format, name)),
            None => others.push(name),
        }
    }
    let refuse = |message: &str, names: &[String], hint: &str| {
        let message = format!("{} {message}: {}", source.path().display(), listed(names));
        Err(Error::new(ErrorKind::InvalidArgument, message).with_hint(hint))
    };
    match loadable.as_slice() {
        [(index, format, _)] => {
            let mut entry = archive
                .by_index(*index)
                .map_err(|error| zip_error(source, error))?;
            read(*format, &mut entry)
        }
        [] => refuse("holds no .csv or .ndjson file", &others, ENDINGS),
        several => {
            let names: Vec<String> = several.iter().map(|(_, _, name)| name.clone()).collect();
            refuse(
                "holds several files",
                &names,
                "unpack it, and load the files one by one",
            )
        }
    }
}

fn zip_error(source: &Source, error: ZipError) -> Error {
    let path = source.path().display();
    match error {
        ZipError::Io(error) => source.read_error(error),
        ZipError::UnsupportedArchive(_)
        | ZipError::CompressionMethodNotSupported(_)
        | ZipError::InvalidPassword => Error::new(
            ErrorKind::InvalidArgument,
            format!("the compression of {path} is not supported: {error}"),
        )
        .with_hint("unpack the file, and load the result")
        .with_source(error),
        error => Error::new(
            ErrorKind::Io,
            format!("{path} is not a complete zip archive: {error}"),
        )
        .with_hint("copy or download the file again: it may be truncated")
        .with_source(error),
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "it has no files".to_owned();
    }
    let shown = names[..names.len().min(MAX_LISTED_ENTRIES)].join(", ");
    match names.len().saturating_sub(MAX_LISTED_ENTRIES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
