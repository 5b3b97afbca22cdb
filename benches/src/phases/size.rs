//! Phase: size of each database on disk, and time to store the data.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use recto::{LocalSession, Session};

use crate::peers::ours::Ours;
use crate::peers::postgresql;
use crate::peers::sqlite::Layout;
use crate::report::{Section, Table};
use crate::world::World;

/// Unit, in bytes, in which the file system reports the space of a file.
const BLOCK_BYTES: u64 = 512;
/// Cache of a store during its compaction, in bytes.
const CACHE_BYTES: u64 = 1 << 30;

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let data = world.data()?;
    let rows = data.rows as f64;
    let metadata = |path| fs::metadata(path).unwrap();
    let taken = |path| metadata(path).blocks() * BLOCK_BYTES;
    let mut sizes = vec![
        ("Recto", taken(data.recto_file())),
        ("Recto, length of the file", metadata(data.recto_file()).len()),
    ];
    sizes.push((
        "Recto, after `compact`",
        compacted(&data.recto(), &data.recto().with_extension("compacted")),
    ));
    sizes.push(("SQLite", taken(data.sqlite_file(Layout::Indexed))));
    sizes.push((
        "SQLite WITHOUT ROWID",
        taken(data.sqlite_file(Layout::WithoutRowid)),
    ));
    if let Some(cluster) = &data.cluster {
        let (table, index) = postgresql::bytes(&mut cluster.connect());
        sizes.push(("PostgreSQL", table + index));
    }
    let first = sizes[0].1 as f64;
    let mut table = Table::new(
        "",
        &[
            "",
            "MB on disk",
            "bytes a row",
            "/ Recto",
            "seconds",
            "rows stored/s",
        ],
    );
    for (name, bytes) in sizes {
        let seconds = data.seconds.get(name).copied();
        let bytes = bytes as f64;
        table.push(
            name,
            [
                Some(bytes / 1e6),
                Some(bytes / rows),
                Some(bytes / first),
                seconds,
                seconds.map(|seconds| rows / seconds),
            ],
        );
    }
    Ok(Section {
        title: "Size on disk".to_owned(),
        text: format!(
            "{rows} flights, stored day by day, which is not the order of the key. Recto stores 10,000 rows with each \
             durable `put_all`. SQLite has the same transactions (WAL, `synchronous = NORMAL`), PostgreSQL uses COPY. \
             Both then build their index. Sizes are space on disk: the unwritten end of Recto's file takes none. \
             Times are missing if an earlier run stored the data."
        ),
        tables: vec![table],
        ..Section::default()
    })
}

/// Compacts a copy of a store. Returns the size of the compacted copy in bytes.
fn compacted(store: &Path, copy: &Path) -> u64 {
    let _ = fs::remove_dir_all(copy);
    fs::create_dir_all(copy).unwrap();
    for entry in fs::read_dir(store).unwrap().flatten() {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let ours = Ours::open(copy, CACHE_BYTES);
    let session = LocalSession::new(ours.recto.clone());
    let (_, bytes) = ours
        .runtime
        .block_on(session.tools().unwrap().compact(&|_| {}))
        .unwrap();
    fs::remove_dir_all(copy).unwrap();
    bytes
}
