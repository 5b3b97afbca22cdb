//! `recto attach`: attaches an existing table of Cassandra as a read-only collection.

use std::path::PathBuf;

use clap::Args;
use recto::schema::AttachedTable;
use recto::session::{AttachReport, AttachRequest};
use recto::{OpenOptions, StoreAddress};

use super::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::opening::environment;
use crate::store::StoreArgs;
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  recto attach shop.orders --from cassandra://db1,db2/shop --store shop-view
  recto attach shop.orders --from cassandra://db1/shop --name all_orders --view orders_by_day
  recto serve --store shop-view                       show its pages in the console

The table appears as a collection of the store (--store), which Recto reads and never writes. A role with \
SELECT is enough: Recto creates and writes nothing in that keyspace.

The store is created if it does not exist. It records the table's columns and the keyspace's address, \
without user name and password. Give these whenever the store is opened: in RECTO_CASSANDRA_USERNAME and \
RECTO_CASSANDRA_PASSWORD, or in the --store-config file.

The table's materialized views become views. A table that you keep yourself, with the same rows in another \
order, becomes a view if --view names it. If the table changes, attach it again. `recto apply --remove \
COLLECTION` removes it from the store.";

/// Arguments of `recto attach`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AttachArgs {
    /// Table to attach, with its keyspace
    #[arg(value_name = "KEYSPACE.TABLE", value_parser = clap::value_parser!(AttachedTable))]
    table: AttachedTable,
    #[arg(
        long,
        value_name = "ADDRESS",
        help = "Address of the table's keyspace: cassandra://host/keyspace"
    )]
    from: String,
    /// TOML file with parameters of that keyspace
    #[arg(long, value_name = "FILE")]
    from_config: Option<PathBuf>,
    /// Name of the collection [default: the table's name]
    #[arg(long, value_name = "COLLECTION")]
    name: Option<String>,
    /// Table of the keyspace with the same rows in another order; can be repeated
    #[arg(long = "view", value_name = "TABLE")]
    views: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `recto attach`: attaches an existing table of Cassandra as a read-only collection.
pub(crate) async fn run(args: &AttachArgs, console: &mut Console) -> Result<Exit> {
    let from = StoreArgs {
        store: Some(args.from.clone()),
        store_config: args
            .from_config
            .clone()
            .or_else(|| args.store.store_config.clone()),
        wait: None,
    };
    let StoreAddress::Cassandra(from) = from.address(&args.from, environment())? else {
        return Err(Failure::new(
            Exit::Refused,
            "--from is not the address of a keyspace of Cassandra",
        )
        .with_hint(format!("use --from cassandra://host/{}", args.table.keyspace)));
    };
    let request = AttachRequest {
        table: args.table.clone(),
        from: *from,
        name: args.name.clone(),
        views: args.views.clone(),
    };
    let store = args.store.open_itself(OpenOptions::new().create()).await?;
    let report = store.attach(&request).await?;
    if args.json {
        print_json(console, &report.to_json())?;
    } else {
        draw(&report, &store.describe(), console)?;
    }
    Ok(Exit::Done)
}

/// Prints the result of attaching a table as text.
fn draw(report: &AttachReport, store: &str, console: &mut Console) -> Result<()> {
    let collection = &report.collection;
    let done = console.paint(Tone::Good, "✓");
    let name = &collection.name;
    let what = if report.changes.is_empty() {
        "is already attached"
    } else {
        "is attached"
    };
    console.line(format_args!(
        "{done} {} {what}: collection {name} of {}",
        report.table(),
        printable(store)
    ))?;
    let fields = collection.fields.iter();
    let fields: Vec<String> = fields
        .map(|field| format!("{} {}", field.name, field.ty))
        .collect();
    console.line(format_args!("  fields   {}", fields.join(", ")))?;
    console.line(format_args!("  order    {}", collection.base()))?;
    for view in &collection.views {
        let arranged = collection.arranged(view);
        console.line(format_args!("  view     {}  {arranged}", view.name))?;
    }
    for one in &report.left_out {
        let left_out = console.paint(Tone::Warning, "left out");
        console.line(format_args!(
            "  {left_out} {}: {}",
            printable(&one.what),
            printable(&one.why)
        ))?;
    }
    console.line(format_args!(
        "  address  {}, read only",
        printable(&report.address)
    ))?;
    let hint = console.paint(
        Tone::Dim,
        "`recto page` and `recto serve` read the table at this address",
    );
    console.line(format_args!("  {hint}"))?;
    Ok(())
}
