//! Copy of standard input in a temporary file, because a load reads its file several times.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recto::Environment;
use tokio::sync::oneshot;

use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::progress::Meter;
use crate::stop::unless_stopped;

/// File name on the command line that means standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// Maximum number of bytes that are copied from standard input to the temporary file.
const MAX_BYTES: u64 = 64 << 30;

/// Temporary file with a copy of standard input. Dropping the value removes the file.
#[derive(Debug)]
pub(super) struct StdinFile {
    folder: PathBuf,
    path: PathBuf,
}

impl StdinFile {
    /// Copies standard input to a temporary file. Returns `None` if the process got a signal to
    /// stop.
    pub(super) async fn receive(quiet: bool, console: &mut Console) -> Result<Option<Self>> {
        if console.input_is_terminal() {
            return Err(Failure::new(Exit::Refused, "standard input is a terminal")
                .with_hint("pipe a file into the command"));
        }
        let mut received =
            Self::create().map_err(|error| failed("write standard input to a temporary file", &error))?;
        console.flush()?;
        let meter = Arc::new(Meter::start(console, quiet));
        let (shown, path) = (Arc::clone(&meter), received.path.clone());
        let mut input = console.take_input();
        let (tell, told) = oneshot::channel();
        // Use a separate thread, because a read from a pipe blocks and cannot be interrupted.
        std::thread::spawn(move || {
            // Ignore an error: after a signal to stop, nothing receives the result.
            let _ = tell.send(copy(&mut *input, &path, &|bytes| shown.received(bytes)));
        });
        let copied = unless_stopped(told).await;
        meter.finish();
        match copied {
            None => return Ok(None),
            Some(Ok(Ok(copied))) => copied?,
            Some(_) => {
                return Err(Failure::new(
                    Exit::Failed,
                    "reading standard input stopped unexpectedly",
                ));
            }
        }
        let ending = recto::detect_load_ending(&received.path)?;
        let named = received.folder.join(format!("stdin.{ending}"));
        fs::rename(&received.path, &named)
            .map_err(|error| failed("write standard input to a temporary file", &error))?;
        received.path = named;
        Ok(Some(received))
    }

    /// Creates an empty temporary file that only its owner may read.
    fn create() -> io::Result<Self> {
        let suffix: u64 = u64::from_le_bytes(Environment::system().random());
        let folder = std::env::temp_dir().join(format!("recto-load-{suffix:016x}"));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        let path = folder.join("stdin");
        let created = Self { folder, path };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&created.path)?;
        Ok(created)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the default path of the file for rejected rows: `stdin.rejects.csv` or
    /// `stdin.rejects.ndjson`.
    pub(super) fn default_rejects(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let ending = if name.contains(".ndjson") { "ndjson" } else { "csv" };
        PathBuf::from(format!("stdin.rejects.{ending}"))
    }
}

impl Drop for StdinFile {
    fn drop(&mut self) {
        // Ignore an error, because the operating system removes old temporary folders.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Copies standard input to the file at `path`, at most [`MAX_BYTES`].
fn copy(input: &mut dyn BufRead, path: &Path, progress: &dyn Fn(u64)) -> Result<()> {
    let mut file = File::options()
        .write(true)
        .open(path)
        .map_err(|error| failed("write standard input to a temporary file", &error))?;
    let mut bytes = 0_u64;
    loop {
        let piece = match input.fill_buf() {
            Ok([]) => return Ok(()),
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed("read standard input", &error)),
        };
        let length = piece.len();
        bytes += length as u64;
        if bytes > MAX_BYTES {
            let message = format!("standard input has more than {} GiB", MAX_BYTES >> 30);
            return Err(Failure::new(Exit::Refused, message)
                .with_hint("write the input to a file, and load the file"));
        }
        file.write_all(piece)
            .map_err(|error| failed("write standard input to a temporary file", &error))?;
        input.consume(length);
        progress(bytes);
    }
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot {what}: {error}"))
        .with_hint("set TMPDIR to a folder that has enough space for the whole input")
}
