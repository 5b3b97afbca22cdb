//! `recto tune`: calculates sizes of buckets (ranges of a partition), and the cost of maintaining
//! them.

mod plot;
mod report;

use std::fs;
use std::path::PathBuf;

use clap::Args;
use recto::buckets::{DEFAULT_EPSILON, MAX_TARGET_BYTES, RowsPerBucket, Sizing, SizingError, counted_bytes};

use super::print_json;
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::store::StoreArgs;
use crate::text::{byte_count, printable};
use report::{Measured, Report, Rows, Target};

const EXAMPLES: &str = "\
Examples:
  recto tune --target 10MB --row 1kB
  recto tune flights --target 100MB --epsilon 1e-9
  recto tune --target 10MB --row 300B --largest-row 20kB --svg buckets.svg
  recto tune --chance 1/512 --samples 40

If a partition can become too large for Cassandra, Recto keeps it in buckets. Recto does not count their \
rows. It samples each row with a probability in proportion to its bytes, and splits a bucket at its k-th \
sample. With more samples, the sizes of buckets differ less, but each sample costs a write. The size of a \
row is the bytes of its cells and 64 more. It does not include the names of columns, and it ignores \
compression.

With --chance, each row is sampled with the same probability, as in the article \"A Third Choice\", the \
source of the method. For the numbers of the article (1/512 and 40), the report shows its claims next to \
the computed values.";

/// Arguments of `recto tune`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    /// Name of a collection, whose first million rows are measured
    #[arg(value_name = "COLLECTION", conflicts_with = "chance")]
    collection: Option<String>,
    /// Maximum size of a bucket: 64KiB to 1GiB
    #[arg(long, value_name = "BYTES", value_parser = byte_count, default_value = "10MB", conflicts_with = "chance")]
    target: u64,
    /// Size of a row: the bytes of its cells
    #[arg(long, value_name = "BYTES", value_parser = byte_count, conflicts_with_all = ["collection", "chance"],
        required_unless_present_any = ["collection", "chance"])]
    row: Option<u64>,
    /// Size of the largest row [default: that of --row]
    #[arg(long, value_name = "BYTES", value_parser = byte_count, conflicts_with_all = ["collection", "chance"])]
    largest_row: Option<u64>,
    /// Probability that a bucket is larger than the target: 1e-15 to 0.1
    #[arg(long, value_name = "CHANCE", default_value_t = DEFAULT_EPSILON, conflicts_with = "chance")]
    epsilon: f64,
    /// Number of samples in a bucket, up to 1024 [default: the number for a mean size of ⅜ of the target]
    #[arg(long, value_name = "NUMBER")]
    samples: Option<u32>,
    /// Probability that a row is sampled: 1/512, or 0.002
    #[arg(long, value_name = "CHANCE", value_parser = chance, requires = "samples")]
    chance: Option<f64>,
    /// SVG file to draw the sizes into, too
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `recto tune`: prints the bucket sizes that follow from the arguments.
pub(crate) async fn run(args: &TuneArgs, console: &mut Console) -> Result<Exit> {
    let report = match (args.chance, args.samples) {
        (Some(chance), Some(samples)) => Report {
            buckets: RowsPerBucket::new(samples, chance).map_err(refused)?,
            target: None,
        },
        _ => sized(args, rows_of(args).await?).map_err(refused)?,
    };
    if let Some(file) = &args.svg {
        let written = plot::svg(&report).and_then(|image| fs::write(file, image));
        written.map_err(|error| {
            let name = printable(&file.display().to_string());
            Failure::new(Exit::Failed, format!("cannot write {name}: {error}"))
        })?;
    }
    if args.json {
        print_json(console, &report.to_json())?;
    } else {
        report.write(console)?;
        console.line("")?;
        let drawn = plot::text(&report, console.width());
        write!(console.out(), "{drawn}")?;
    }
    Ok(Exit::Done)
}

/// Returns the size of rows, from the arguments or measured in a collection.
async fn rows_of(args: &TuneArgs) -> Result<Rows> {
    let Some(collection) = &args.collection else {
        let bytes = args.row.unwrap_or_default();
        let largest_bytes = args.largest_row.unwrap_or(bytes).max(bytes);
        return Ok(Rows {
            bytes,
            largest_bytes,
            measured: None,
        });
    };
    let session = args.store.open_to_read().await?;
    let sizes = session.tools()?.row_sizes(collection).await?;
    if sizes.rows == 0 {
        let message = format!("{} has no rows to measure", printable(collection));
        return Err(Failure::new(Exit::Refused, message).with_hint("give the size of a row with --row"));
    }
    Ok(Rows {
        bytes: sizes.mean_bytes(),
        largest_bytes: sizes.largest_bytes,
        measured: Some(Measured {
            rows: sizes.rows,
            deviation_bytes: sizes.deviation_bytes(),
        }),
    })
}

fn sized(args: &TuneArgs, rows: Rows) -> std::result::Result<Report, SizingError> {
    let largest = counted_bytes(rows.largest_bytes);
    let sizing = match args.samples {
        Some(samples) => Sizing::with_samples(args.target, largest, args.epsilon, samples)?,
        None => Sizing::new(args.target, largest, args.epsilon)?,
    };
    let buckets = sizing.rows(counted_bytes(rows.bytes))?;
    let target = Target {
        bytes: args.target,
        epsilon: args.epsilon,
        bytes_per_sample: sizing.bytes_per_sample(),
        rows,
    };
    Ok(Report {
        buckets,
        target: Some(target),
    })
}

fn refused(error: SizingError) -> Failure {
    let failure = Failure::new(Exit::Refused, error.to_string());
    let hint = match error {
        SizingError::Row { least, .. } if least <= MAX_TARGET_BYTES => {
            format!("use --target {least}B, or fewer --samples")
        }
        SizingError::Row { .. } => "use smaller rows: no target is large enough, and each of these rows \
                                    would be a bucket"
            .to_owned(),
        SizingError::Target { .. } => "use --target 10MB".to_owned(),
        SizingError::Epsilon { .. } => format!("use --epsilon {DEFAULT_EPSILON:e}"),
        SizingError::Samples { .. } => "use --samples 16".to_owned(),
        SizingError::Chance { .. } => "use --chance 1/512".to_owned(),
        _ => return failure,
    };
    failure.with_hint(hint)
}

/// Parses a probability from the command line, such as `1/512`, `0.002` or `2e-3`.
fn chance(text: &str) -> std::result::Result<f64, String> {
    let said = || format!("{text:?} is not a probability, such as 1/512 or 0.002");
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| said());
    match text.split_once('/') {
        Some((part, whole)) => Ok(number(part)? / number(whole)?),
        None => number(text),
    }
}
