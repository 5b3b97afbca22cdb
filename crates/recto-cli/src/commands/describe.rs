//! `recto describe`: shows the collections of a store.

use std::time::Duration;

use clap::Args;
use recto::schema::{Collection, Schema};
use recto::session::{CollectionDescription, CommitLog, StoreDescription, UnavailableCollection};
use recto::{ErrorKind, Session};
use serde_json::json;

use super::{collection_of, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;
use crate::text::{bytes, counted, duration, grouped, printable};

const EXAMPLES: &str = "\
Examples:
  recto describe                     show the store and its collections
  recto describe posts               show the fields of one collection
  recto describe --toml              print the recorded schema as a file, with the options of queues";

/// Arguments of `recto describe`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DescribeArgs {
    /// Name of the collection to show, with its fields [default: all, without their fields]
    pub(crate) collection: Option<String>,
    /// Print the recorded schema as TOML, with the options of queues
    #[arg(long, conflicts_with_all = ["json", "collection"])]
    pub(crate) toml: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto describe`: shows the collections of a store.
pub(crate) async fn run(args: &DescribeArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let store = session.describe().await?;
    // Do not request the schema of a store that has none yet (generation 0). Show an empty schema
    // instead.
    let schema = if store.generation == 0 {
        None
    } else {
        Some(session.schema().await?)
    };
    let empty = Schema::default();
    let schema = schema.as_deref().unwrap_or(&empty);
    if let Some(name) = &args.collection {
        let collection = collection_of(schema, name)?;
        if args.json {
            print_json(console, &json!(described(collection, &store)))?;
        } else {
            draw_collection(collection, &store, console)?;
        }
        return Ok(Exit::Done);
    }
    if args.toml {
        write!(console.out(), "{}", with_queues(schema, session).await?.to_toml())?;
    } else if args.json {
        let collections = schema.collections.iter();
        let collections: Vec<_> = collections
            .map(|collection| described(collection, &store))
            .collect();
        let mut document =
            json!({ "store": store.store, "generation": store.generation, "collections": collections });
        if let Some(cluster) = &store.cluster {
            document["cluster"] = json!(cluster);
        }
        if let Some(log) = commit_log(session).await? {
            document["commit_log"] = json!(log);
        }
        print_json(console, &document)?;
    } else {
        let log = commit_log(session).await?;
        draw_store(&store, schema, log.as_ref(), console)?;
    }
    Ok(Exit::Done)
}

/// Returns the state of the commit log. Returns `None` for a store on Cassandra, and for a server that does not
/// report its log: the token lacks the right `check`, or the server has an earlier release.
async fn commit_log(session: &dyn Session) -> Result<Option<CommitLog>> {
    match session.tools()?.commit_log().await {
        Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::NotFound) => Ok(None),
        log => Ok(log?),
    }
}

/// Adds the settings of queues, if the store has any, to a copy of the schema.
async fn with_queues(schema: &Schema, session: &dyn Session) -> Result<Schema> {
    let mut schema = schema.clone();
    let settings = session.queues()?.table_settings().await?;
    schema.queues = settings.map(|said| said.to_schema()).unwrap_or_default();
    Ok(schema)
}

fn draw_store(
    store: &StoreDescription,
    schema: &Schema,
    log: Option<&CommitLog>,
    console: &mut Console,
) -> Result<()> {
    let name = console.paint(Tone::Strong, &printable(&store.store));
    if store.generation == 0 {
        console.line(format_args!("{name}  no schema yet"))?;
        console.line("`recto init` writes a schema file to start from, and `recto apply` applies it")?;
        return Ok(());
    }
    let count = counted(schema.collections.len() as u64, "collection", "collections");
    console.line(format_args!(
        "{name}  {count}, schema generation {}",
        grouped(store.generation)
    ))?;
    if let Some(cluster) = &store.cluster {
        console.line(printable(&cluster.version()))?;
        for lack in &cluster.lacks {
            console.line(format_args!(
                "{} {}",
                console.paint(Tone::Warning, "!"),
                printable(lack)
            ))?;
        }
    }
    let width = schema
        .collections
        .iter()
        .map(|collection| collection.name.len())
        .max()
        .unwrap_or(0);
    let arranged = schema
        .collections
        .iter()
        .map(|collection| collection.base().to_string().len())
        .max()
        .unwrap_or(0);
    console.line("")?;
    for collection in &schema.collections {
        let fields = counted(collection.fields.len() as u64, "field", "fields");
        let rest = console.paint(Tone::Dim, &format!("{} · {fields}", written(collection)));
        console.line(format_args!(
            "  {:width$}  {:arranged$}  {rest}",
            collection.name,
            collection.base().to_string()
        ))?;
        if let Some(unavailable) = store.unavailability(&collection.name) {
            draw_unavailable(unavailable, "    ", console)?;
        }
    }
    log.map_or(Ok(()), |log| draw_log(log, console))
}

/// Prints the state of the commit log.
fn draw_log(log: &CommitLog, console: &mut Console) -> Result<()> {
    console.line("")?;
    if log.file_bytes == 0 {
        console.line("commit log   no files yet")?;
        return Ok(());
    }
    console.line(format_args!("commit log   {} in files", bytes(log.file_bytes)))?;
    console.line(format_args!(
        "records      {} since the store was opened; {} since the last checkpoint",
        grouped(log.records),
        bytes(log.record_bytes)
    ))?;
    let last = log
        .last_checkpoint_age_seconds
        .map_or_else(String::new, |seconds| {
            format!("; the last one {} ago", duration(Duration::from_secs(seconds)))
        });
    console.line(format_args!(
        "checkpoints  {} since the store was opened{last}",
        grouped(log.checkpoints)
    ))?;
    if log.replayed_records > 0 {
        let records = counted(log.replayed_records, "record", "records");
        console.line(format_args!(
            "recovery     {records} applied again when the store was opened"
        ))?;
    }
    Ok(())
}

/// Prints the reason why a collection is unavailable, and a hint.
fn draw_unavailable(unavailable: &UnavailableCollection, indent: &str, console: &mut Console) -> Result<()> {
    let message = console.paint(Tone::Warning, &printable(&unavailable.message));
    console.line(format_args!("{indent}{message}"))?;
    let hint = console.paint(Tone::Hint, &printable(&unavailable.hint));
    console.line(format_args!("{indent}{hint}"))?;
    Ok(())
}

/// Returns the write mode of a collection as text, or the table of Cassandra to which it is
/// attached.
fn written(collection: &Collection) -> String {
    let attached = collection.attached.as_ref();
    attached.map_or_else(
        || collection.writes.to_string(),
        |table| format!("read only, from {table}"),
    )
}

fn draw_collection(collection: &Collection, store: &StoreDescription, console: &mut Console) -> Result<()> {
    console.line(console.paint(Tone::Strong, &collection.name))?;
    if let Some(unavailable) = store.unavailability(&collection.name) {
        draw_unavailable(unavailable, "  ", console)?;
    }
    console.line(format_args!("  sort order   {}", collection.base()))?;
    console.line(format_args!("  key          {}", collection.key.join(", ")))?;
    console.line(format_args!("  writes       {}", written(collection)))?;
    for sort_order in collection.sort_orders().iter().skip(1) {
        console.line(format_args!("  view         {} {sort_order}", sort_order.name()))?;
    }
    console.line("")?;
    let width = collection
        .fields
        .iter()
        .map(|field| field.name.len())
        .max()
        .unwrap_or(0);
    for field in &collection.fields {
        let ty = console.paint(Tone::Dim, &field.ty.to_string());
        console.line(format_args!("  {:width$}  {ty}", field.name))?;
    }
    Ok(())
}

/// Returns the description of a collection in the JSON form that the HTTP API also uses.
fn described(collection: &Collection, store: &StoreDescription) -> CollectionDescription {
    let unavailable = store.unavailability(&collection.name);
    CollectionDescription::new(collection, unavailable.map(|one| one.message.clone()))
}
