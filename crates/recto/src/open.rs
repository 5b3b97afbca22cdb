//! Opening of stores, and operations that differ between kinds of stores. No other module knows the
//! kinds of stores.

// In a build that lacks a kind of store, some functions do not await, and some items are unused, so
// allow these warnings.
#![cfg_attr(
    not(all(feature = "embedded", feature = "cassandra")),
    allow(
        clippy::unused_async,
        clippy::unnecessary_wraps,
        dead_code,
        unused_imports,
        unused_variables
    )
)]

use std::sync::Arc;

use recto_model::schema::{AttachedTable, Schema};
use recto_model::table::{BucketBound, Buckets};
use recto_model::{Environment, Table};
use recto_store::{Store, StoreError};

use crate::address::{CassandraAddress, StoreAddress};
use crate::catalog::Recorded;
use crate::catalog::apply::Intent;
use crate::catalog::change::TableChange;
use crate::catalog::queues::FoundQueues;
use crate::catalog::tables::{self, FoundTables};
use crate::error::{Error, ErrorKind, Result};
use crate::options::OpenOptions;
use crate::reach::{Reach, away_message};
use crate::session::{
    ApplyOptions, CheckOutcome, CheckedCollection, ClusterStatus, CommitLog, Progress, SchemaPlan,
    ScrubPosition, ScrubStep, StoreProgress,
};

/// Open store, with the operations of its kind that the trait `Store` does not have.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) operations: Operations,
}

/// Operations of a kind of store that the trait `Store` does not have.
#[derive(Clone)]
pub(crate) enum Operations {
    #[cfg(feature = "embedded")]
    Embedded(Arc<recto_embedded::EmbeddedStore>),
    #[cfg(feature = "cassandra")]
    Cassandra {
        store: Arc<recto_cassandra::CassandraStore>,
        keyspace: String,
    },
    /// Store that the caller passed. Only the operations of the trait `Store` are available.
    None,
}

/// Opens the store at an address: embedded or on Cassandra.
pub(crate) async fn open(
    address: &StoreAddress,
    environment: &Environment,
    options: &OpenOptions,
) -> Result<Opened> {
    match address {
        StoreAddress::Embedded(folder) => open_embedded(folder, environment, options).await,
        StoreAddress::Cassandra(address) => open_cassandra(address, environment, options.create).await,
        StoreAddress::Http(_) => Err(not_a_store()),
    }
}

/// Connects to a keyspace that has attached tables. Creates nothing in the keyspace, and sends only `SELECT`.
#[cfg(feature = "cassandra")]
pub(crate) async fn reach(
    address: &CassandraAddress,
    environment: &Environment,
) -> Result<Arc<recto_cassandra::CassandraStore>> {
    let config = cassandra_config(address)?;
    let connected = recto_cassandra::CassandraStore::connect(config, environment.clone()).await;
    Ok(Arc::new(connected.map_err(|error| not_reached(address, error))?))
}

#[cfg(feature = "cassandra")]
fn not_reached(address: &CassandraAddress, error: StoreError) -> Error {
    let hint = error.hint().map(str::to_owned);
    let is_absent = error.kind() == recto_store::StoreErrorKind::Table;
    let error = Error::from(error);
    let kind = if is_absent {
        ErrorKind::NotFound
    } else {
        error.kind()
    };
    let hint = match hint {
        _ if is_absent => {
            "check the name of the keyspace: only existing keyspaces can be attached".to_owned()
        }
        Some(hint) if kind == ErrorKind::Unauthorized => format!(
            "{hint}: set RECTO_CASSANDRA_USERNAME and RECTO_CASSANDRA_PASSWORD, or use a store file; the \
             store does not record them"
        ),
        Some(hint) => hint,
        None => "check that its nodes are up".to_owned(),
    };
    let message = away_message(&address.keyspace, &address.to_recorded(), error.message());
    Error::new(kind, message).with_hint(hint).with_source(error)
}

/// Connects to a keyspace that has attached tables, at an address that the catalog has recorded. Credentials
/// come from `options`, because the catalog does not record them.
#[cfg(feature = "cassandra")]
pub(crate) async fn reach_recorded(
    address: &str,
    environment: &Environment,
    options: &OpenOptions,
) -> Result<Arc<dyn Store>> {
    let parameters = options.cassandra.iter();
    let parameters = parameters.map(|(name, value)| (name.as_str(), value.reveal()));
    let address = CassandraAddress::recorded(address, parameters)?;
    Ok(reach(&address, environment).await? as Arc<dyn Store>)
}

#[cfg(not(feature = "cassandra"))]
pub(crate) async fn reach_recorded(_: &str, _: &Environment, _: &OpenOptions) -> Result<Arc<dyn Store>> {
    Err(not_built("cassandra"))
}

/// Returns the plan to apply `schema` to a store that does not exist yet.
pub(crate) async fn plan_without_store(
    address: &StoreAddress,
    environment: &Environment,
    schema: &Schema,
    options: &ApplyOptions,
) -> Result<SchemaPlan> {
    let (recorded, mut found): (_, FoundTables) = Default::default();
    let has_ring = matches!(address, StoreAddress::Cassandra(_));
    found.queues = (!schema.queues.is_empty()).then(|| FoundQueues::none(has_ring));
    let planned = |show: &dyn Fn(&TableChange) -> Vec<String>| {
        Intent::new(&recorded, &found, schema, options, show).plan
    };
    let mut plan = match address {
        StoreAddress::Embedded(_) => planned(&show_embedded),
        #[cfg(feature = "cassandra")]
        StoreAddress::Cassandra(address) => {
            let keyspace = plan_keyspace(address, environment, schema).await?;
            let mut plan = planned(&|change| show_cassandra(&address.keyspace, keyspace.dialect, change));
            plan.notes = table_notes(Some(keyspace.tables), &plan.statements);
            plan.statements.splice(0..0, keyspace.statement);
            plan
        }
        #[cfg(not(feature = "cassandra"))]
        StoreAddress::Cassandra(_) => return Err(not_built("cassandra")),
        StoreAddress::Http(_) => return Err(not_a_store()),
    };
    plan.changes.insert(0, format!("the store {address} is created"));
    Ok(plan)
}

/// Number of tables of a cluster from which on a plan warns. Each table costs memory on each node, and Cassandra
/// itself warns from 150 tables on.
const MANY_TABLES: u64 = 200;

/// Returns notes on the number of tables of a cluster, before and after the statements of a plan. `there` is the
/// number of tables of all keyspaces, or `None` for an embedded store.
pub(crate) fn table_notes(there: Option<u64>, statements: &[String]) -> Vec<String> {
    let Some(there) = there else {
        return Vec::new();
    };
    let count = |start: &str| statements.iter().filter(|one| one.starts_with(start)).count() as u64;
    let created = count("CREATE TABLE");
    let after = (there + created).saturating_sub(count("DROP TABLE"));
    let mut notes = vec![format!(
        "tables of the cluster: {there} now, {after} after the change"
    )];
    if created > 0 && after >= MANY_TABLES {
        notes.push(format!(
            "{MANY_TABLES} tables and more slow all nodes down, because each table takes memory on each node: \
             remove views that are not read, or use several clusters"
        ));
    }
    notes
}

/// Returns what the collections and queues of a schema need of a cluster. Attached collections need nothing,
/// because Recto creates no tables for them.
#[cfg(feature = "cassandra")]
fn needs(schema: &Schema) -> Vec<recto_cassandra::Need> {
    let tables = schema.collections.iter().filter(|one| one.attached.is_none());
    let mut fields = tables.flat_map(|one| &one.fields);
    let has_vectors = fields.any(|field| field.ty.has_vector());
    let queues = (!schema.queues.is_empty()).then_some(recto_cassandra::Need::Queues);
    let vectors = has_vectors.then_some(recto_cassandra::Need::Vectors);
    queues.into_iter().chain(vectors).collect()
}

/// Returns the error for the address of a server, where a store's address is needed. The crate `recto-remote`
/// sends requests to servers, over HTTP.
#[cold]
fn not_a_store() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "a running server is not a store that this process can open",
    )
    .with_hint("use the address of the store itself: its folder, or cassandra://host/keyspace")
}

impl Operations {
    /// Checks that a cluster can serve the collections and queues of `schema`.
    #[cfg_attr(not(feature = "cassandra"), allow(clippy::unused_async, unused_variables))]
    pub(crate) async fn check_needs(&self, schema: &Schema) -> Result<()> {
        match self {
            #[cfg(feature = "cassandra")]
            Self::Cassandra { store, .. } => Ok(store.check_needs(&needs(schema)).await?),
            _ => Ok(()),
        }
    }

    /// Checks that a cluster can serve queues.
    #[cfg_attr(not(feature = "cassandra"), allow(clippy::unused_async))]
    pub(crate) async fn check_queues(&self) -> Result<()> {
        match self {
            #[cfg(feature = "cassandra")]
            Self::Cassandra { store, .. } => Ok(store.check_needs(&[recto_cassandra::Need::Queues]).await?),
            _ => Ok(()),
        }
    }

    /// Returns the number of tables of all keyspaces of a cluster, or `None` for other stores.
    #[cfg_attr(not(feature = "cassandra"), allow(clippy::unused_async))]
    pub(crate) async fn count_tables(&self) -> Result<Option<u64>> {
        match self {
            #[cfg(feature = "cassandra")]
            Self::Cassandra { store, .. } => Ok(Some(store.count_tables().await?)),
            _ => Ok(None),
        }
    }

    /// Returns the versions of a cluster's nodes and what the cluster cannot do, or `None` for other stores.
    pub(crate) fn cluster_status(&self) -> Option<ClusterStatus> {
        match self {
            #[cfg(feature = "cassandra")]
            Self::Cassandra { store, .. } => {
                let recto_cassandra::ClusterStatus { versions, lacks } = store.cluster_status();
                Some(ClusterStatus { versions, lacks })
            }
            _ => None,
        }
    }

    /// Returns the statements that the store would run for a change of a table, or a description of the
    /// change.
    pub(crate) fn show(&self, change: &TableChange) -> Vec<String> {
        match self {
            #[cfg(feature = "cassandra")]
            Self::Cassandra { store, keyspace } => show_cassandra(keyspace, store.dialect(), change),
            _ => show_embedded(change),
        }
    }
}

/// Returns the table as Cassandra stores it, with the columns that only the bucket store uses.
#[cfg(feature = "cassandra")]
fn in_cassandra(table: &Table) -> Table {
    recto_buckets::table_in_store(table).unwrap_or_else(|_| table.clone())
}

/// Describes a change of a table of an embedded store.
fn show_embedded(change: &TableChange) -> Vec<String> {
    match change {
        TableChange::Make(table) => vec![in_words(table)],
        TableChange::Extend { there, table } => {
            let added = names(&table.columns()[there.columns().len()..]);
            vec![format!("table {}: add {added}", table.name())]
        }
        TableChange::Drop(name) => vec![format!("table {name}: drop")],
    }
}

/// Prefix of the columns that Recto adds to a table. Texts for users do not show these columns.
const HIDDEN_PREFIX: &str = "recto_";

fn names(columns: &[recto_model::Column]) -> String {
    columns
        .iter()
        .filter(|column| !column.name.starts_with(HIDDEN_PREFIX))
        .map(|column| format!("{} {}", column.name, column.ty))
        .collect::<Vec<_>>()
        .join(", ")
}

fn in_words(table: &Table) -> String {
    let shown = table.clustering().iter().enumerate();
    let shown = shown.filter(|(_, column)| !column.name.starts_with(HIDDEN_PREFIX));
    let order = shown.map(|(index, column)| {
        let direction = match table.clustering_direction(index) {
            recto_model::Direction::Ascending => "",
            recto_model::Direction::Descending => " desc",
        };
        format!("{} {}{direction}", column.name, column.ty)
    });
    let mut text = format!("table {}: partition ({})", table.name(), names(table.partition()));
    let order = order.collect::<Vec<_>>().join(", ");
    let regular = names(table.regular());
    if !order.is_empty() {
        text += &format!(", order ({order})");
    }
    if !regular.is_empty() {
        text += &format!(", then {regular}");
    }
    text += &table.options().buckets.map(buckets_in_words).unwrap_or_default();
    text
}

fn buckets_in_words(buckets: Buckets) -> String {
    let mut text = match buckets.bound {
        BucketBound::Bytes(bytes) => format!(", in buckets of at most {bytes} bytes"),
        BucketBound::Rows(rows) => format!(", in buckets of at most {rows} rows"),
        BucketBound::Time(width) => format!(", in buckets of {width} each"),
    };
    if buckets.shards > 1 {
        text += &format!(" and {} shards", buckets.shards);
    }
    if let Some(keep) = buckets.keep {
        text += &format!(", kept for {keep}");
    }
    text
}

#[cfg(feature = "embedded")]
async fn open_embedded(
    folder: &std::path::Path,
    environment: &Environment,
    asked: &OpenOptions,
) -> Result<Opened> {
    use recto_embedded::{EmbeddedOptions, EmbeddedStore};

    let mut options = EmbeddedOptions::default();
    options.create = asked.create;
    options.read_only = asked.read_only;
    if let Some(cache_bytes) = asked.cache_bytes {
        options.cache_bytes = cache_bytes;
    }
    let (folder, environment) = (folder.to_owned(), environment.clone());
    let opening = tokio::task::spawn_blocking(move || EmbeddedStore::open(folder, options, environment));
    let store = opening.await.map_err(ended)?.map_err(not_there)?;
    Ok(Opened {
        store: Arc::clone(&store) as Arc<dyn Store>,
        operations: Operations::Embedded(store),
    })
}

#[cfg(not(feature = "embedded"))]
async fn open_embedded(_: &std::path::Path, _: &Environment, _: &OpenOptions) -> Result<Opened> {
    Err(not_built("embedded"))
}

#[cfg(feature = "cassandra")]
async fn open_cassandra(
    address: &CassandraAddress,
    environment: &Environment,
    create: bool,
) -> Result<Opened> {
    use recto_cassandra::{CassandraStore, create_keyspace};

    let config = cassandra_config(address)?;
    if create {
        create_keyspace(config.clone(), environment.clone(), replication_of(address)?).await?;
    }
    let store = CassandraStore::connect(config, environment.clone())
        .await
        .map_err(not_there)?;
    let store = Arc::new(store);
    Ok(Opened {
        store: Arc::clone(&store) as Arc<dyn Store>,
        operations: Operations::Cassandra {
            store,
            keyspace: address.keyspace.clone(),
        },
    })
}

/// Returns the plan of the keyspace of a store that does not exist yet.
#[cfg(feature = "cassandra")]
async fn plan_keyspace(
    address: &CassandraAddress,
    environment: &Environment,
    schema: &Schema,
) -> Result<recto_cassandra::KeyspacePlan> {
    let config = cassandra_config(address)?;
    let replication = replication_of(address)?;
    let needs = needs(schema);
    Ok(recto_cassandra::plan_keyspace(config, environment.clone(), replication, &needs).await?)
}

/// Converts an error of opening a store. If the folder or keyspace does not exist, the result is
/// [`ErrorKind::NotFound`] with a hint.
fn not_there(error: StoreError) -> Error {
    if error.kind() == recto_store::StoreErrorKind::Table {
        let hint = error
            .hint()
            .unwrap_or("open it with the option `create`, which creates it")
            .to_owned();
        return Error::new(ErrorKind::NotFound, error.to_string())
            .with_hint(hint)
            .with_source(error);
    }
    error.into()
}

#[cfg(not(feature = "cassandra"))]
async fn open_cassandra(_: &CassandraAddress, _: &Environment, _: bool) -> Result<Opened> {
    Err(not_built("cassandra"))
}

#[cfg(feature = "cassandra")]
fn show_cassandra(keyspace: &str, dialect: recto_cassandra::Dialect, change: &TableChange) -> Vec<String> {
    match change {
        TableChange::Make(table) => dialect.create_table_cql(keyspace, &in_cassandra(table)),
        TableChange::Extend { there, table } => dialect
            .add_columns_cql(keyspace, &in_cassandra(there), &in_cassandra(table))
            .expect("only possible additions are planned"),
        TableChange::Drop(name) => vec![recto_cassandra::drop_table_cql(keyspace, name)],
    }
}

#[cfg(not(all(feature = "embedded", feature = "cassandra")))]
fn not_built(feature: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("this build of Recto has no {feature} store"),
    )
    .with_hint(format!("build it with the feature {feature}"))
}

#[cfg(feature = "cassandra")]
fn cassandra_config(address: &CassandraAddress) -> Result<recto_cassandra::CassandraConfig> {
    let mut config = recto_cassandra::CassandraConfig::new(address.hosts.clone(), &address.keyspace);
    config.username.clone_from(&address.username);
    config.password = address
        .password
        .as_ref()
        .map(|password| password.reveal().to_owned());
    config.local_datacenter.clone_from(&address.local_datacenter);
    if let Some(consistency) = address.consistency {
        config.consistency = consistency;
    }
    config.serial_consistency = address.serial_consistency.unwrap_or(config.serial_consistency);
    config.retries = address.retries.unwrap_or(config.retries);
    config.pool_size = address.pool_size.unwrap_or(config.pool_size);
    config.in_flight = address.in_flight.unwrap_or(config.in_flight);
    config.mutation_bytes = address.mutation_bytes;
    config.batch_bytes = address.batch_bytes;
    if let Some(timeout) = address.connect_timeout {
        config.connect_timeout = timeout;
    }
    config.tls = tls(address)?;
    Ok(config)
}

#[cfg(feature = "cassandra")]
fn tls(address: &CassandraAddress) -> Result<Option<recto_cassandra::TlsConfig>> {
    if !address.tls {
        return Ok(None);
    }
    let invalid = |message: &str| Error::new(ErrorKind::InvalidArgument, message);
    let Some(ca_file) = &address.tls_ca else {
        return Err(
            invalid("tls needs tls_ca, a PEM file with the trusted certificate authorities").with_hint(
                "add tls_ca=FILE to the address; the file must have the authority that signed the nodes' \
                 certificates",
            ),
        );
    };
    let mut config = recto_cassandra::TlsConfig::new(ca_file);
    config.check_server_name = address.tls_check_server_name;
    config.client = match (&address.tls_certificate, &address.tls_key) {
        (None, None) => None,
        (Some(certificate_file), Some(key_file)) => Some(recto_cassandra::ClientCertificate {
            certificate_file: certificate_file.clone(),
            key_file: key_file.clone(),
        }),
        _ => {
            return Err(
                invalid("tls_certificate and tls_key must be set together").with_hint(
                    "set both to PEM files: the certificate chain and the private key of this client",
                ),
            );
        }
    };
    Ok(Some(config))
}

#[cfg(feature = "cassandra")]
fn replication_of(address: &CassandraAddress) -> Result<Option<recto_cassandra::Replication>> {
    address.replication.as_deref().map(replication).transpose()
}

/// Parses the replication of a keyspace, such as `3` or `dc1:3,dc2:2`.
#[cfg(feature = "cassandra")]
fn replication(text: &str) -> Result<recto_cassandra::Replication> {
    use recto_cassandra::Replication;

    let invalid = || {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("{text:?} is not a replication"),
        )
        .with_hint("use a number of copies for every data center, or datacenter:copies,…")
    };
    let copies = |text: &str| {
        text.parse()
            .ok()
            .filter(|copies: &u8| *copies > 0)
            .ok_or_else(invalid)
    };
    if !text.contains(':') {
        return copies(text).map(Replication::Everywhere);
    }
    let datacenters = text.split(',').map(|part| {
        let (name, count) = part.split_once(':').ok_or_else(invalid)?;
        Ok((name.to_owned(), copies(count)?))
    });
    datacenters.collect::<Result<_>>().map(Replication::Datacenters)
}

#[cfg(feature = "embedded")]
fn ended(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Store, "the operation on the store was stopped").with_source(error)
}

fn embedded_only(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} needs an embedded store"))
        .with_hint("use the commands of Cassandra: nodetool snapshot, compact, verify")
}

/// Runs `work`, and passes the progress reports of the store to `progress` until `work` ends. The store may
/// report from any thread.
#[cfg(feature = "embedded")]
async fn reporting<T>(
    mut reports: tokio::sync::mpsc::UnboundedReceiver<StoreProgress>,
    progress: Progress<'_, StoreProgress>,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            Some(report) = reports.recv() => progress(report),
            result = &mut work => return Ok(result?),
        }
    }
}

#[cfg(feature = "embedded")]
fn reporter() -> (
    impl FnMut(recto_embedded::Progress) + Send + 'static,
    tokio::sync::mpsc::UnboundedReceiver<StoreProgress>,
) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let report = move |at: recto_embedded::Progress| {
        // Ignore a failed send, because the receiver is gone once the work has ended.
        let _ = sender.send(StoreProgress {
            done: at.rows,
            total: Some(at.total_rows),
        });
    };
    (report, receiver)
}

/// Copies an open embedded store to a backup. Returns the size of the copy in bytes.
pub(crate) async fn backup(
    operations: &Operations,
    to: &std::path::Path,
    progress: Progress<'_, StoreProgress>,
) -> Result<u64> {
    match operations {
        #[cfg(feature = "embedded")]
        Operations::Embedded(store) => {
            let (report, reports) = reporter();
            let done = reporting(reports, progress, store.backup(to, report)).await?;
            Ok(done.bytes)
        }
        _ => Err(embedded_only("backup")),
    }
}

/// Copies a backup, opened as an embedded store, to a folder that becomes a store. Returns the size
/// of the copy in bytes.
pub(crate) async fn restore(
    operations: &Operations,
    to: &std::path::Path,
    progress: Progress<'_, StoreProgress>,
) -> Result<u64> {
    match operations {
        #[cfg(feature = "embedded")]
        Operations::Embedded(store) => {
            let (report, reports) = reporter();
            let done = reporting(reports, progress, store.restore(to, report)).await?;
            Ok(done.bytes)
        }
        _ => Err(embedded_only("restore")),
    }
}

/// Checks that a backup can be restored to a folder. The folder must be empty or not exist.
///
/// # Errors
/// [`ErrorKind::Unavailable`]: the folder is not empty, or another process has opened the store in the folder.
#[cfg(feature = "embedded")]
pub fn check_restore_folder(folder: &std::path::Path) -> Result<()> {
    Ok(recto_embedded::refuse_occupied(folder)?)
}

/// Writes the address at which this process serves an embedded store into the store's lock file, where other
/// processes find it.
pub(crate) fn announce(operations: &Operations, url: &str) -> Result<()> {
    match operations {
        #[cfg(feature = "embedded")]
        Operations::Embedded(store) => Ok(store.announce(url)?),
        _ => Ok(()),
    }
}

/// Frees unused space in the store's file. Returns the size in bytes before and after.
pub(crate) async fn compact(
    operations: &Operations,
    progress: Progress<'_, StoreProgress>,
) -> Result<(u64, u64)> {
    match operations {
        #[cfg(feature = "embedded")]
        Operations::Embedded(store) => {
            let (report, reports) = reporter();
            let done = reporting(reports, progress, store.compact(report)).await?;
            Ok((done.bytes_before, done.bytes_after))
        }
        _ => Err(embedded_only("compact")),
    }
}

/// Returns the state of the commit log of an embedded store, or `None` for other stores. `now_micros` is the
/// current time, for the age of the last checkpoint.
pub(crate) fn commit_log(operations: &Operations, now_micros: i64) -> Option<CommitLog> {
    match operations {
        #[cfg(feature = "embedded")]
        Operations::Embedded(store) => {
            let log = store.log_statistics();
            let last = log.last_checkpoint_micros;
            let seconds = |micros: i64| u64::try_from(micros.max(0)).unwrap_or_default() / 1_000_000;
            Some(CommitLog {
                file_bytes: log.file_bytes,
                record_bytes: log.record_bytes,
                records: log.records,
                checkpoints: log.checkpoints,
                last_checkpoint_at_seconds: (last > 0).then(|| seconds(last)),
                last_checkpoint_age_seconds: (last > 0).then(|| seconds(now_micros.saturating_sub(last))),
                replayed_records: log.replayed_records,
                incomplete_records: log.incomplete_records,
            })
        }
        _ => None,
    }
}

/// Gives up the records of a commit log after the number `last`, so that the store in `folder` can be opened
/// although its log is damaged. Their writes are lost. Renames the files of the log: the new names end with
/// `.dropped`. Returns the number of the last record whose changes the store has.
///
/// The error of opening the store names the first record that is not valid. `last` is usually the number before
/// it.
///
/// # Errors
/// - [`ErrorKind::NotFound`]: there is no store in `folder`.
/// - [`ErrorKind::Unavailable`]: another process has opened the store.
/// - [`ErrorKind::Corrupt`]: a record up to `last` cannot be applied, or the data file is damaged.
#[cfg(feature = "embedded")]
pub async fn drop_commit_log_after(folder: impl Into<std::path::PathBuf>, last: u64) -> Result<u64> {
    let folder = folder.into();
    let dropping = tokio::task::spawn_blocking(move || {
        recto_embedded::EmbeddedStore::drop_log_after(folder, last, Environment::system())
    });
    dropping.await.map_err(ended)?.map_err(not_there)
}

/// Executes the next step of a scrub (verification of an embedded store's file, step by step). Returns `None`
/// for other stores.
#[cfg_attr(not(feature = "embedded"), allow(unused_variables))]
pub(crate) async fn scrub_step(
    operations: &Operations,
    position: &mut ScrubPosition,
    most_bytes: u64,
) -> Result<Option<ScrubStep>> {
    match operations {
        #[cfg(feature = "embedded")]
        Operations::Embedded(store) => {
            let (next, step) = store.scrub_step(position.embedded.clone(), most_bytes).await?;
            position.embedded = next;
            Ok(Some(ScrubStep {
                bytes: step.bytes,
                rows: step.rows,
                is_last: step.is_last,
                problems: step.problems,
                met: store.damage_met(),
            }))
        }
        _ => Ok(None),
    }
}

/// Checks every row of an embedded store, or the tables of a keyspace. Counts the rows of collections
/// separately from Recto's own rows.
pub(crate) async fn check(
    operations: &Operations,
    store: &Arc<dyn Store>,
    recorded: &Recorded,
    reach: &Reach,
    progress: Progress<'_, StoreProgress>,
) -> Result<CheckOutcome> {
    match operations {
        #[cfg(feature = "embedded")]
        Operations::Embedded(store) => {
            let (report, reports) = reporter();
            let found = reporting(reports, progress, store.check(report)).await?;
            let is_collection = |name: &str| recorded.schema.collection(name).is_some();
            // In the tables of collections, a static row marks a split partition. Count static rows
            // separately, because they are no records.
            let of_collections = found.tables.iter().filter(|table| is_collection(&table.name));
            let marks: u64 = of_collections.map(|table| table.static_rows).sum();
            let (ours, internal): (Vec<_>, Vec<_>) = found
                .tables
                .iter()
                .map(|table| {
                    let marks = if is_collection(&table.name) {
                        table.static_rows
                    } else {
                        0
                    };
                    CheckedCollection {
                        name: table.name.clone(),
                        rows: table.rows - table.ended_rows - marks,
                    }
                })
                .partition(|table| is_collection(&table.name));
            let mut problems: Vec<String> = found.page_damage.into_iter().chain(found.log_damage).collect();
            problems.extend(
                found
                    .problems
                    .iter()
                    .map(|one| format!("{} {}: {}", one.table, one.key, one.what)),
            );
            let more = found.problem_count.saturating_sub(found.problems.len() as u64);
            if more > 0 {
                problems.push(format!("and {more} more"));
            }
            Ok(CheckOutcome {
                rows: ours.iter().map(|one| one.rows).sum(),
                collections: ours,
                internal_rows: marks + internal.iter().map(|one| one.rows).sum::<u64>(),
                problems,
                notes: [views_to_verify(recorded), away(reach)].concat(),
                ..CheckOutcome::default()
            })
        }
        #[cfg(feature = "cassandra")]
        Operations::Cassandra { store: cassandra, .. } => {
            check_cassandra(cassandra, store, recorded, reach).await
        }
        Operations::None => Err(embedded_only("check")),
    }
}

/// Returns a note for each unreachable keyspace with attached tables.
fn away(reach: &Reach) -> Vec<String> {
    let away = reach.away().into_values();
    away.map(|away| format!("attached tables are unavailable: {}", away.message))
        .collect()
}

/// Returns a note that the check does not compare views with their records, if there are views.
fn views_to_verify(recorded: &Recorded) -> Vec<String> {
    let views = recorded.views.tables.len();
    let note =
        format!("views ({views}) were not compared with their records: run `recto verify` to compare them");
    (views > 0).then_some(note).into_iter().collect()
}

/// Compares the tables of a keyspace with the schema, and checks the replication of the keyspace. Does not
/// check rows, because Cassandra has its own commands to check rows.
#[cfg(feature = "cassandra")]
async fn check_cassandra(
    cassandra: &recto_cassandra::CassandraStore,
    store: &Arc<dyn Store>,
    recorded: &Recorded,
    reach: &Reach,
) -> Result<CheckOutcome> {
    let mut tables = recorded.tables();
    tables.retain(|(_, table)| AttachedTable::keyspace_of(table.name()).is_none());
    let compared: Vec<Table> = tables.iter().map(|(_, table)| in_cassandra(table)).collect();
    let mut outcome = CheckOutcome {
        tables: compared.len() as u64,
        ..CheckOutcome::default()
    };
    let problems = tables::problems(store, recorded, reach).await?;
    outcome.problems = problems.values().map(|one| one.error().to_string()).collect();
    let found = cassandra.check_keyspace(&compared).await?;
    outcome.problems.extend(found.problems);
    let cluster = cassandra.cluster_status();
    outcome.notes.push(format!(
        "the nodes run Cassandra {}",
        cluster.versions.join(" and ")
    ));
    outcome.notes.extend(cluster.lacks);
    outcome.notes.extend(found.notes);
    outcome.notes.extend(views_to_verify(recorded));
    for stray in tables::strays(store, recorded).await? {
        outcome.notes.push(format!(
            "table {} is in no schema; a rejected or interrupted apply created it: run `recto apply --remove \
             {}` to drop it",
            stray.name(),
            stray.name()
        ));
    }
    Ok(outcome)
}
