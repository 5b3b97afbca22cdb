//! Files of a load on the server: the uploaded file during the load, and the rejected rows until no
//! client needs them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use recto::session::LoadRequest;
use recto::{Error, ErrorKind};

use crate::problem::Problem;
use crate::work::Upkeep;
use recto::problem::ProblemType;
use recto_api::parameters::to_pairs;

/// Number of bytes that are collected before they are written to the uploaded file.
const WRITE_BYTES: usize = 1 << 20;

/// Time for which the server keeps the rejected rows of a load. If the connection breaks during the
/// reply, the client can get the rows by repeating its request.
const KEPT_TIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Minimum number of bytes that a client must send within the stall time. A slower client's load
/// ends, so that another load can begin.
pub(super) const MIN_SENT_BYTES: u64 = 256 << 10;

/// Name of a completely uploaded file, before its extensions.
const FILE_NAME: &str = "file";

/// Prefix of the name of an incomplete file, before the process id and an index. Each upload has a
/// new name, because writes of an abandoned upload may still be running.
const SENT_PREFIX: &str = "sent-";

/// Index for the name of the next incomplete file of this process.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Completely uploaded file. Dropping the value removes the file.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    /// Name that the client gave to the file.
    name: String,
}

impl Spool {
    /// Receives a whole file and stores it in a folder named after the content and the options. A
    /// repeated load thus finds the rejected rows of the earlier attempt.
    pub(super) async fn receive(
        upkeep: &Upkeep,
        name: &str,
        request: &LoadRequest,
        mut body: Body,
    ) -> Result<Self, Problem> {
        let folder = upkeep.load_folder.clone().ok_or_else(no_load_folder)?;
        let most = upkeep.load_bytes;
        if http_body::Body::size_hint(&body).lower() > most {
            return Err(too_large(most));
        }
        let mut upload = blocking(move || Upload::begin(&folder)).await?;
        let mut wanted = MIN_SENT_BYTES;
        let mut time = pin!(tokio::time::sleep(upkeep.stall_time));
        loop {
            if upload.bytes() >= wanted {
                wanted = upload.bytes() + MIN_SENT_BYTES;
                time.set(tokio::time::sleep(upkeep.stall_time));
            }
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = &mut time => return Err(stalled(upkeep.stall_time)),
            };
            let data = match frame {
                None => break,
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(Problem::invalid_body(error.to_string())),
            };
            if upload.bytes() + data.len() as u64 > most {
                return Err(too_large(most));
            }
            upload.pending.extend_from_slice(&data);
            if upload.pending.len() >= WRITE_BYTES {
                upload = blocking(move || upload.write()).await?;
                // Restart the client's stall time after the write, because the client did not cause
                // the delay.
                time.set(tokio::time::sleep(upkeep.stall_time));
            }
        }
        let key = identity(request);
        let file = format!("{FILE_NAME}{}", endings(name));
        let path = blocking(move || upload.write()?.finish(key, &file)).await?;
        let name = name.to_owned();
        Ok(Self { path, name })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the path of the file in a problem by the client's name of the file.
    pub(super) fn name_in(&self, problem: Problem) -> Problem {
        problem.renamed(&self.path.display().to_string(), &self.name)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // Use `remove_dir`, which fails on a folder with content. So rejected rows are kept.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

/// Upload in progress. Dropping the value removes the incomplete file.
struct Upload {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    pending: Vec<u8>,
    written: u64,
    hasher: blake3::Hasher,
}

impl Upload {
    fn begin(folder: &Path) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        remove_old(folder);
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{SENT_PREFIX}{}-{number}", std::process::id()));
        // Remove the file of a killed process that had the same process id.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self {
            folder: folder.to_owned(),
            file: options.open(&path)?,
            path,
            pending: Vec::new(),
            written: 0,
            hasher: blake3::Hasher::new(),
        })
    }

    fn bytes(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    fn write(mut self) -> io::Result<Self> {
        self.file.write_all(&self.pending)?;
        self.hasher.update(&self.pending);
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(self)
    }

    /// Moves a completely uploaded file to the folder of its load.
    fn finish(self, mut key: blake3::Hasher, name: &str) -> io::Result<PathBuf> {
        key.update(self.hasher.finalize().as_bytes());
        let folder = self.folder.join(key.finalize().to_hex().as_str());
        fs::create_dir_all(&folder)?;
        let path = folder.join(name);
        fs::rename(&self.path, &path)?;
        Ok(path)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns a hash of the options of a load. With the content of the file, they identify the load.
fn identity(request: &LoadRequest) -> blake3::Hasher {
    let mut key = blake3::Hasher::new();
    let mut collections = request.collections.clone();
    collections.sort_unstable();
    let flags = if request.ignore_unknown { "1" } else { "0" };
    let mut add = |text: &str| {
        key.update(&(text.len() as u64).to_le_bytes());
        key.update(text.as_bytes());
    };
    add(&collections.join(","));
    add(flags);
    for (option, value) in to_pairs(&request.csv) {
        add(option);
        add(&value);
    }
    key
}

/// Returns the extensions of a file name that determine the format, such as `.csv.gz`.
fn endings(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let mut parts = name.rsplit('.');
    let (last, before) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match last {
        "gz" | "zst" => format!(".{before}.{last}"),
        last => format!(".{last}"),
    }
}

/// Removes old files of abandoned loads. Keeps all other files, because operators may use the
/// folder for other purposes.
fn remove_old(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_of_a_load)) {
        let age = entry.metadata().and_then(|found| found.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_none_or(|age| age < KEPT_TIME) {
            continue;
        }
        let path = entry.path();
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
}

/// Returns whether a file or folder name is from a load: the hash of a load, or the name of an
/// incomplete file.
fn is_of_a_load(name: &str) -> bool {
    let numbers = name.strip_prefix(SENT_PREFIX);
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    numbers.is_some_and(|numbers| numbers.split('-').all(is_number)) || blake3::Hash::from_hex(name).is_ok()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| {
        let message = format!("the server cannot store the file during the load: {error}");
        Problem::from(Error::new(ErrorKind::Io, message).with_hint("free disk space in its load_folder"))
    })
}

fn no_load_folder() -> Problem {
    let detail = "this server has no folder for files that it loads";
    Problem::new(ProblemType::Forbidden, detail).with_hint(
        "ask the operator of the server to set a folder: recto serve --load-folder FOLDER, or load_folder in \
         its file",
    )
}

fn too_large(most: u64) -> Problem {
    let detail = format!("a file to load has at most {most} bytes");
    Problem::limit_exceeded(detail)
        .with_hint("compress the file, or load it in parts; the server's operator can raise max_load_bytes")
}

fn stalled(limit: Duration) -> Problem {
    let detail = format!(
        "the file did not arrive: the server received fewer than {MIN_SENT_BYTES} bytes in {} ms, and stored \
         nothing of it",
        limit.as_millis()
    );
    Problem::late_body(detail)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_what_is_left_of_loads_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let left = [
            blake3::hash(b"a load").to_hex().to_string(),
            "sent-17-0".to_owned(),
        ];
        let others = ["orders.csv", "sent-by-ada", "0000"];
        let old = SystemTime::now() - 2 * KEPT_TIME;
        for name in left.iter().map(String::as_str).chain(others) {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(old).unwrap();
        }
        remove_old(folder.path());
        let is_there = |name: &str| folder.path().join(name).exists();
        assert!(left.iter().all(|name| !is_there(name)));
        assert!(others.iter().all(|name| is_there(name)));
    }
}
