//! `recto buckets`: lists the buckets (ranges) of large partitions, and splits too large buckets.

mod bar;
mod draw;

use std::sync::Arc;

use clap::Args;
use recto::Session;
use recto::schema::Schema;
use recto::session::{BucketsRequest, RebalanceProgress, RebalanceRequest};
use serde_json::{Value as Json, json};

use super::upkeep::OutputArgs;
use super::{collection_of, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::progress::Meter;
use crate::stop::unless_stopped;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  recto buckets events                                   list the partitions and their numbers of buckets
  recto buckets events --filter 'stream = \"a\"'           list the buckets of one partition
  recto buckets posts.by_author --filter 'author = 7' --json
  recto buckets events --filter 'stream = \"a\"' --at '[\"2026-11-24T09:00:00Z\"]'
  recto buckets events --rebalance

If a partition can become too large for its store, keep it in buckets: write `bucket = { target = \"10MB\" \
}` in the schema. Queries do not change. A bar shows the size of each bucket. The line in the bar is the \
target, and `!` marks sizes over it. On Cassandra, sizes are estimates: in 95 of 100 cases, the error is \
at most the number after ±. An embedded store keeps each partition whole, and shows the buckets that \
Cassandra would have.

On Cassandra, a process that has the store open splits buckets that are too large, and joins those with few \
rows. --rebalance does both now, and completes what was interrupted. A split or a join takes half a minute, \
and its leftovers are cleared an hour later: --clear waits for that. On an embedded store, --rebalance \
deletes the records older than `keep`.";

/// Arguments of `recto buckets`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BucketsArgs {
    /// Collection, or one of its views
    #[arg(value_name = "COLLECTION[.VIEW]")]
    sort_order: String,
    /// Filter that names one partition by a value of each partition field
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Maximum number of partitions or buckets to list: 1 to 256 [default: 50]
    #[arg(
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        conflicts_with = "rebalance"
    )]
    page_size: Option<i64>,
    /// Token of an earlier list, which this list continues
    #[arg(
        long,
        value_name = "TOKEN",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "rebalance"
    )]
    page_token: String,
    #[arg(help = "Order values around which to list buckets, as a JSON array: '[\"2026-11-24T09:00:00Z\"]'")]
    #[arg(long, value_name = "VALUES", requires = "filter", conflicts_with_all = ["rebalance", "page_token"])]
    at: Option<String>,
    /// Split large buckets and join small ones, in all partitions or in the partition of --filter
    #[arg(long)]
    rebalance: bool,
    /// Wait up to an hour, and clear the leftovers of splits
    #[arg(long, requires = "rebalance")]
    clear: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl BucketsArgs {
    /// Opens the store: for writing if `--rebalance` is given, otherwise for reading.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Session>> {
        if self.rebalance {
            self.store.open().await
        } else {
            self.store.open_to_read().await
        }
    }
}

/// Sort order (collection or view) that the arguments name, and whether to list all of its
/// partitions.
struct OrderArguments<'a> {
    collection: &'a str,
    /// Name of the view; empty for the collection's primary sort order.
    view: &'a str,
    is_whole: bool,
}

impl<'a> OrderArguments<'a> {
    /// Parses `COLLECTION` or `COLLECTION.VIEW`.
    ///
    /// # Errors
    /// The collection does not exist. The session checks whether the view exists.
    fn new(args: &'a BucketsArgs, schema: &Schema) -> Result<Self> {
        let (name, view) = args.sort_order.split_once('.').unwrap_or((&args.sort_order, ""));
        let definition = collection_of(schema, name)?;
        let sort_orders = definition.sort_orders();
        let of = match view {
            "" => sort_orders.first(),
            view => sort_orders.iter().find(|one| one.name() == view),
        };
        Ok(Self {
            collection: name,
            view,
            // A sort order without partition fields has one partition, so list the buckets of that
            // partition instead of partitions.
            is_whole: args.filter.is_empty() && of.is_none_or(|of| !of.partition.is_empty()),
        })
    }
}

/// Runs `recto buckets`: lists partitions or the buckets of one partition, or splits buckets.
pub(crate) async fn run(
    args: &BucketsArgs,
    session: Arc<dyn Session>,
    console: &mut Console,
) -> Result<Exit> {
    let schema = session.schema().await?;
    let asked = OrderArguments::new(args, &schema)?;
    if args.rebalance {
        return rebalance(args, &asked, session, console).await;
    }
    let request = BucketsRequest {
        view: asked.view.to_owned(),
        filter: args.filter.clone(),
        page_size: args.page_size,
        page_token: args.page_token.clone(),
        at: args.at.as_ref().map(|at| format!("[{at}]")),
    };
    let tools = session.tools()?;
    if asked.is_whole {
        let listed = tools.bucket_partitions(asked.collection, &request).await;
        let listed = listed.map_err(|error| failure(args, error))?;
        return shown(args, &json!(listed), console, |console| {
            draw::partitions(&listed, console)
        });
    }
    let listed = tools.buckets(asked.collection, &request).await;
    let listed = listed.map_err(|error| failure(args, error))?;
    shown(args, &json!(listed), console, |console| {
        draw::buckets(&listed, console)
    })
}

fn shown(
    args: &BucketsArgs,
    listed: &Json,
    console: &mut Console,
    draw: impl FnOnce(&mut Console) -> Result<()>,
) -> Result<Exit> {
    if args.output.json {
        print_json(console, listed)?;
    } else {
        draw(console)?;
    }
    Ok(Exit::Done)
}

async fn rebalance(
    args: &BucketsArgs,
    asked: &OrderArguments<'_>,
    session: Arc<dyn Session>,
    console: &mut Console,
) -> Result<Exit> {
    let request = RebalanceRequest {
        view: asked.view.to_owned(),
        filter: args.filter.clone(),
        clear: args.clear,
    };
    let meter = Arc::new(Meter::start(console, args.output.quiet));
    let (shown, collection) = (Arc::clone(&meter), asked.collection.to_owned());
    let outcome = unless_stopped(async move {
        let told = |at: RebalanceProgress| shown.rebalance(&at);
        session
            .tools()?
            .rebalance_buckets(&collection, &request, &told)
            .await
    })
    .await;
    let elapsed = meter.elapsed();
    meter.finish();
    let report = match outcome {
        Some(Ok(report)) => report.map_err(|error| failure(args, error))?,
        Some(Err(error)) => {
            let message = format!("splitting buckets stopped unexpectedly: {error}");
            return Err(Failure::new(Exit::Failed, message).with_hint("report this defect of Recto"));
        }
        None => {
            let stopped = console.err_paint(Tone::Warning, "stopped;");
            console.note(format_args!(
                "{stopped} completed splits remain; another process completes a split that this one began"
            ))?;
            return Ok(Exit::Interrupted);
        }
    };
    if args.output.json {
        print_json(console, &json!(report))?;
    } else {
        draw::rebalanced(&report, args.clear, elapsed, console)?;
    }
    Ok(Exit::Done)
}

/// Converts an error to a failure. For an error in the filter, the message shows the filter and the
/// position.
fn failure(args: &BucketsArgs, error: recto::Error) -> Failure {
    let is_filter = error.part() == Some(recto::ErrorPart::Filter);
    let column = error.column().filter(|_| is_filter);
    let failure = Failure::from(error);
    match column {
        Some(column) => failure.pointing(&args.filter, column),
        None => failure,
    }
}
