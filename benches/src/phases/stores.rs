//! Helpers for phases that have their own store: they open it with a schema, and load files into
//! it.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::session::LoadRequest;
use recto::{CassandraAddress, LocalSession, OpenOptions, Recto, Session, StoreAddress};
use tokio::runtime::Runtime;

use crate::world::World;

/// Time limit of a request to a store. It is long, because the measurements keep the machine busy.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Returns the address of a Cassandra keyspace that only this process uses. `name` is a part of the
/// keyspace's name.
pub(super) fn cassandra(world: &World, name: &str) -> CassandraAddress {
    let keyspace = format!("recto_benches_{name}_{}", std::process::id());
    CassandraAddress::new(vec![world.arguments.cassandra.clone()], &keyspace)
}

/// Opens a store, and creates it if it does not exist. Applies `schema` if it is given.
pub(super) fn open(runtime: &Runtime, store: &StoreAddress, schema: Option<&str>) -> Result<Recto, String> {
    runtime.block_on(async {
        let options = OpenOptions::new().create().request_timeout(TIMEOUT);
        let recto = Recto::open_with(store, options)
            .await
            .map_err(|error| format!("{error}; `recto-rig start` starts a Cassandra"))?;
        if let Some(schema) = schema {
            recto.apply(&Schema::parse(schema).unwrap()).await.unwrap();
        }
        Ok(recto)
    })
}

/// Writes a CSV file with the given header and lines. Returns its path.
pub(super) fn csv(file: PathBuf, header: &str, lines: impl Iterator<Item = String>) -> PathBuf {
    let mut writer = BufWriter::new(fs::File::create(&file).unwrap());
    writeln!(writer, "{header}").unwrap();
    for line in lines {
        writeln!(writer, "{line}").unwrap();
    }
    writer.flush().unwrap();
    file
}

/// Loads a CSV file into a collection. Returns the time in seconds.
pub(super) fn load(runtime: &Runtime, recto: &Recto, file: &Path, collection: &str) -> Result<f64, String> {
    // Remove the rejects file of an earlier run, because a load does not overwrite a file that it
    // did not create.
    let rejects = file.with_extension(format!("{collection}.rejects.csv"));
    let _ = fs::remove_file(&rejects);
    let request = LoadRequest {
        file: file.to_owned(),
        collections: vec![collection.to_owned()],
        rejects: Some(rejects),
        ..LoadRequest::default()
    };
    let session = LocalSession::new(recto.clone());
    let started = Instant::now();
    let loaded = runtime.block_on(session.tools().unwrap().load(&request, &|_| {}));
    loaded.map_err(|error| format!("load: {error}"))?;
    Ok(started.elapsed().as_secs_f64())
}
