//! `recto get`, `recto insert`, `recto put` and `recto delete`: operations on single records.

use std::io::{BufRead, Read as _};
use std::sync::Arc;

use clap::Args;
use recto::schema::{Collection, WriteMode};
use recto::session::{Action, JsonRecord, Outcome, RecordChange, Versioned, Written};
use recto::{DynamicRecord, MAX_TTL_SECONDS, Session};
use serde_json::{Value as Json, json};

use super::{collection_of, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::store::StoreArgs;
use crate::table::cell_text;
use crate::text::{counted, grouped};

/// Maximum number of records of one `put` or `insert`, which stores all of them or none.
const MAX_PUT_RECORDS: usize = 10_000;
/// Maximum number of bytes of JSON in one `put` or `insert`.
const MAX_PUT_BYTES: u64 = 16 << 20;
/// Maximum length in bytes of a line with a record. No store accepts a longer record.
const MAX_RECORD_BYTES: u64 = MAX_PUT_BYTES - (64 << 10);

const KEYS: &str = "\
Give the values of the key fields in the key's order, each as an argument. Or join the percent-encoded \
values by commas in one argument, as in the HTTP path of a record. Write -- before a key that begins with -.";

const GET_EXAMPLES: &str = "\
Examples:
  recto get readings berlin thermometer-7
  recto get readings berlin,thermometer-7 --json";

/// Arguments of `recto get`.
#[derive(Debug, Args)]
#[command(after_help = format!("{GET_EXAMPLES}\n\n{KEYS}"))]
pub(crate) struct GetArgs {
    /// Name of the collection
    pub(crate) collection: String,
    /// Values of the key fields
    #[arg(required = true, allow_negative_numbers = true)]
    pub(crate) key: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Records to store.
#[derive(Debug, Args)]
pub(crate) struct RecordsArgs {
    /// Name of the collection
    pub(crate) collection: String,
    /// Record as a JSON object [default: NDJSON on standard input]
    #[arg(value_name = "JSON")]
    pub(crate) record: Option<String>,
    /// Time to live of the records, in seconds: 1 to 630720000 [default: until they are deleted]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TTL_SECONDS)))]
    pub(crate) ttl: Option<u32>,
}

const PUT_EXAMPLES: &str = "\
Examples:
  recto put readings '{\"site\": \"berlin\", \"sensor\": \"thermometer-7\", \"value\": 21.5}'
  recto put readings < readings.ndjson

One command puts at most 10,000 records, and checks all of them before it writes any. An embedded store \
then stores all of them or none, except in a collection with writes = \"update\". There, each record is \
stored separately, and the command names the records that were not stored. Of several records with one key, \
the last one is stored. `recto load` takes files of any size.

A record of a collection with writes = \"append\" never changes. You can put the same record again. An \
embedded store rejects another record with its key, and changes nothing. Cassandra does not notice this \
mistake: the fields that are not null replace those of the first record.";

/// Arguments of `recto put`.
#[derive(Debug, Args)]
#[command(after_help = PUT_EXAMPLES)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) records: RecordsArgs,
    #[command(flatten)]
    pub(crate) version: IfVersion,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

const INSERT_EXAMPLES: &str = "\
Examples:
  recto insert users '{\"id\": 7, \"name\": \"Ada\"}'
  recto insert users < users.ndjson

The collection must have writes = \"update\". Each record is stored separately, unless a record has its \
key. The command names the records that were not stored.";

/// Arguments of `recto insert`.
#[derive(Debug, Args)]
#[command(after_help = INSERT_EXAMPLES)]
pub(crate) struct InsertArgs {
    #[command(flatten)]
    pub(crate) records: RecordsArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Condition of a change.
#[derive(Debug, Args)]
pub(crate) struct IfVersion {
    /// Change the record only if it has this version, as `recto get` shows it; needs writes = "update"
    #[arg(long, value_name = "VERSION")]
    pub(crate) if_version: Option<i64>,
}

const DELETE_EXAMPLES: &str = "\
Examples:
  recto delete readings berlin thermometer-7
  recto delete users 7 --if-version 1763740800000000";

/// Arguments of `recto delete`.
#[derive(Debug, Args)]
#[command(after_help = format!("{DELETE_EXAMPLES}\n\n{KEYS}"))]
pub(crate) struct DeleteArgs {
    /// Name of the collection
    pub(crate) collection: String,
    /// Values of the key fields
    #[arg(required = true, allow_negative_numbers = true)]
    pub(crate) key: Vec<String>,
    #[command(flatten)]
    pub(crate) version: IfVersion,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto get`: shows one record.
pub(crate) async fn get(args: &GetArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let schema = session.schema().await?;
    let collection = collection_of(&schema, &args.collection)?;
    let key = key_of(collection, &args.key)?;
    let Some(found) = session.get(&args.collection, &key).await? else {
        return Err(no_record(collection, &key));
    };
    if !args.json {
        draw(collection, &found, console)?;
        return Ok(Exit::Done);
    }
    let record = Json::Object(found.record);
    let json = match found.version {
        None => record,
        Some(version) => json!({ "record": record, "version": version.to_string() }),
    };
    print_json(console, &json)?;
    Ok(Exit::Done)
}

/// Runs `recto put`: stores records, and replaces records with the same key.
pub(crate) async fn put(args: &PutArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let storing = Storing {
        records: &args.records,
        done: "put",
        if_version: args.version.if_version,
    };
    let ttl_seconds = args.records.ttl;
    let put = |record| Action::Put { record, ttl_seconds };
    storing.run(&put, session, console).await
}

/// Runs `recto insert`: stores records whose keys do not exist.
pub(crate) async fn insert(args: &InsertArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let storing = Storing {
        records: &args.records,
        done: "inserted",
        if_version: None,
    };
    let ttl_seconds = args.records.ttl;
    let insert = |record| Action::Insert { record, ttl_seconds };
    storing.run(&insert, session, console).await
}

/// Records to store by `put` or `insert`, and the parameters of the operation.
struct Storing<'a> {
    records: &'a RecordsArgs,
    done: &'static str,
    if_version: Option<i64>,
}

impl Storing<'_> {
    async fn run(
        &self,
        action: &(dyn Fn(JsonRecord) -> Action + Sync),
        session: &dyn Session,
        console: &mut Console,
    ) -> Result<Exit> {
        let schema = session.schema().await?;
        let collection = collection_of(&schema, &self.records.collection)?;
        let (records, lines) = match self.records.record.as_deref() {
            Some(text) if text != "-" => (vec![parse(collection, text)?], Vec::new()),
            _ => {
                if console.input_is_terminal() {
                    console.note("Reading NDJSON, one record a line; Ctrl-D ends the input.")?;
                }
                read_records(collection, console.input())?
            }
        };
        if self.if_version.is_some() && records.len() > 1 {
            return Err(Failure::new(
                Exit::Refused,
                "--if-version takes one record, but there are several; nothing was written",
            )
            .with_hint("put the records one by one"));
        }
        let change =
            |record| RecordChange::new(&self.records.collection, action(record)).if_version(self.if_version);
        let changes: Vec<RecordChange> = records.into_iter().map(change).collect();
        let mut written = Written::default();
        if !changes.is_empty() {
            written = session
                .write(changes)
                .await
                .map_err(|error| at_line(error, &lines))?;
        }
        self.tell(collection, written, &lines, console)
    }

    fn tell(
        &self,
        collection: &Collection,
        mut written: Written,
        lines: &[u64],
        console: &mut Console,
    ) -> Result<Exit> {
        if written.outcomes.len() == 1 {
            let outcome = written.outcomes.remove(0).map_err(Failure::from)?;
            tell_outcome(&format!("{} 1 record", self.done), outcome, console)?;
            return Ok(Exit::Done);
        }
        let repeated = match (written.repeated, collection.writes) {
            (0, _) => String::new(),
            (more, WriteMode::Append) => {
                format!("; {} more were the same as an earlier record", grouped(more))
            }
            (more, _) => format!("; {} more had the key of a later record", grouped(more)),
        };
        let mut refused = 0;
        for (index, outcome) in written.outcomes.into_iter().enumerate() {
            if let Err(error) = outcome {
                refused += 1;
                at_line(error.with_change(index), lines).show(console);
            }
        }
        console.line(format_args!(
            "{} {} {}{repeated}",
            match written.puts {
                0 => console.paint(Tone::Warning, "!"),
                _ => console.paint(Tone::Good, "✓"),
            },
            self.done,
            counted(written.puts, "record", "records")
        ))?;
        Ok(if refused == 0 { Exit::Done } else { Exit::Partly })
    }
}

/// Prints that a record was changed, with its new version.
pub(super) fn tell_outcome(done: &str, outcome: Outcome, console: &mut Console) -> Result<()> {
    let version = match outcome.version {
        Some(version) => format!(", version {version}"),
        None => String::new(),
    };
    let pending = if outcome.pending {
        "; some views show the change a little later"
    } else {
        ""
    };
    let sign = console.paint(Tone::Good, "✓");
    console.line(format_args!("{sign} {done}{version}{pending}"))?;
    Ok(())
}

/// Converts an error about one of several records. The message names the record's input line.
fn at_line(error: recto::Error, lines: &[u64]) -> Failure {
    match error.change().and_then(|change| lines.get(change)) {
        Some(line) => Failure::from(error).at(&format!("line {}", grouped(*line))),
        None => error.into(),
    }
}

/// Runs `recto delete`: deletes one record.
pub(crate) async fn delete(args: &DeleteArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let schema = session.schema().await?;
    let collection = collection_of(&schema, &args.collection)?;
    let key = key_of(collection, &args.key)?;
    // The message does not say whether the record existed, because a delete does not read the
    // record first.
    let done = format!("record {} of {} is deleted", shown(&key), collection.name);
    let delete = RecordChange::new(&args.collection, Action::Delete { key });
    let outcome = session.change(delete.if_version(args.version.if_version)).await?;
    let version = None;
    tell_outcome(&done, Outcome { version, ..outcome }, console)?;
    Ok(Exit::Done)
}

/// Splits a key from the command line into one text per key field. The user gives one argument per
/// field, or all fields in one argument, separated by commas.
pub(super) fn key_of(collection: &Collection, given: &[String]) -> Result<Vec<String>> {
    let fields = collection.key.len();
    if given.len() == fields {
        return Ok(given.to_vec());
    }
    if let [joined] = given {
        let parts = joined
            .split(',')
            .map(percent_decoded)
            .collect::<Result<Vec<_>>>()?;
        if parts.len() == fields {
            return Ok(parts);
        }
    }
    let names = collection.key.join(", ");
    let found = match given {
        [joined] => joined.split(',').count(),
        _ => given.len(),
    };
    let message = format!(
        "the key of {} has {} ({names}), but {} given",
        collection.name,
        counted(fields as u64, "field", "fields"),
        if found == 1 {
            "1 was".to_owned()
        } else {
            format!("{found} were")
        },
    );
    Err(Failure::new(Exit::Refused, message)
        .with_hint("give each key field as a separate argument, in this order"))
}

fn percent_decoded(text: &str) -> Result<String> {
    let refused = || {
        Failure::new(Exit::Refused, format!("{text:?} is not percent-encoded UTF-8"))
            .with_hint("write a % as %25 and a comma as %2C, or give each key field as a separate argument")
    };
    recto::text::percent_decoded(text).ok_or_else(refused)
}

fn shown(key: &[String]) -> String {
    crate::text::printable(&format!("({})", key.join(", ")))
}

fn no_record(collection: &Collection, key: &[String]) -> Failure {
    Failure::new(
        Exit::NotFound,
        format!("{} has no record {}", collection.name, shown(key)),
    )
}

/// Prints a record as text, one line for each field, in the order of the schema.
fn draw(collection: &Collection, found: &Versioned<JsonRecord>, console: &mut Console) -> Result<()> {
    let width = collection
        .fields
        .iter()
        .map(|field| field.name.len())
        .max()
        .unwrap_or(0);
    for field in &collection.fields {
        let value = match found.record.get(&field.name).and_then(cell_text) {
            Some(text) => text,
            None => console.paint(Tone::Dim, "null"),
        };
        let name = console.paint(Tone::Dim, &format!("{:width$}", field.name));
        console.line(format_args!("{name}  {value}"))?;
    }
    if let Some(version) = found.version {
        console.line(console.paint(Tone::Dim, &format!("version {version}")))?;
    }
    Ok(())
}

/// Parses a record from JSON text. Numbers keep all their digits, according to the types of their
/// fields.
fn parse(definition: &Arc<Collection>, text: &str) -> recto::Result<JsonRecord> {
    DynamicRecord::from_json_text(Arc::clone(definition), text).map(|record| record.to_json())
}

/// Reads NDJSON to its end. Returns the records, and the line number of each record.
fn read_records(
    definition: &Arc<Collection>,
    input: &mut dyn BufRead,
) -> Result<(Vec<JsonRecord>, Vec<u64>)> {
    let mut input = input.take(MAX_PUT_BYTES + 1);
    let (mut records, mut lines) = (Vec::new(), Vec::new());
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = input
            .read_until(b'\n', &mut line)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot read standard input: {error}")))?;
        if input.limit() == 0 {
            return Err(if line.len() as u64 > MAX_RECORD_BYTES {
                too_large(number)
            } else {
                too_much("16 MiB")
            });
        }
        if read == 0 {
            break;
        }
        let refused = |reason: &str| {
            Failure::new(
                Exit::Refused,
                format!("line {}: {reason}; nothing was written", grouped(number)),
            )
            .with_hint("write each line as a JSON object: {\"field\": value}")
        };
        let text = std::str::from_utf8(&line)
            .map_err(|_| refused("it is not UTF-8"))?
            .trim();
        if text.is_empty() {
            continue;
        }
        if records.len() == MAX_PUT_RECORDS {
            return Err(too_much("10,000 records"));
        }
        let parsed = parse(definition, text).map_err(|error| {
            let failure = refused(error.message());
            match error.hint() {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        });
        records.push(parsed?);
        lines.push(number);
    }
    Ok((records, lines))
}

fn too_large(line: u64) -> Failure {
    Failure::new(
        Exit::Refused,
        format!(
            "line {}: the record is too large for every store; nothing was written",
            grouped(line)
        ),
    )
    .with_hint("store smaller records, or keep large values elsewhere")
}

fn too_much(limit: &str) -> Failure {
    Failure::new(
        Exit::Refused,
        format!("one command takes at most {limit}; nothing was written"),
    )
    .with_hint("write the records to a file, and use `recto load`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tests::replies::flights;

    fn key(parts: &[&str]) -> Result<Vec<String>> {
        let parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
        key_of(&flights().collections[0], &parts)
    }

    #[test]
    fn a_key_is_given_in_arguments_or_joined() {
        let expected = ["2013-01-01T10:00:00Z", "U,A%", "1545"];
        assert_eq!(key(&expected).unwrap(), expected);
        assert_eq!(key(&["2013-01-01T10:00:00Z,U%2CA%25,1545"]).unwrap(), expected);
    }

    #[test]
    fn a_key_of_another_shape_is_refused() {
        for parts in [
            &["a"][..],
            &["a", "b"],
            &["a,b,c,d"],
            &["a,b,%2"],
            &["a,b,%ff"],
            &["a,b,%zz"],
        ] {
            let failure = key(parts).unwrap_err();
            assert_eq!(failure.exit, Exit::Refused, "{parts:?}");
        }
    }

    fn read_flights(mut input: &[u8]) -> Result<(Vec<JsonRecord>, Vec<u64>)> {
        read_records(&flights().collections[0], &mut input)
    }

    #[test]
    fn ndjson_skips_blank_lines_and_names_the_bad_one() {
        let read = |text: &str| read_flights(text.as_bytes());
        let good = "{\"flight\": 1}";
        let (records, lines) = read(&format!("{good}\n\n  \r\n{good}")).unwrap();
        assert_eq!((records.len(), lines), (2, vec![1, 4]));
        assert!(read("").unwrap().0.is_empty());
        for bad in [
            "[1]",
            "{\"flight\": 1.5}",
            "{\"flight\": nope}",
            "{\"flihgt\": 1}",
        ] {
            let failure = format!("{:?}", read(&format!("{good}\n{bad}\n")).unwrap_err());
            assert!(failure.contains("line 2"), "{failure}");
        }
        assert!(read_flights(b"\xff\n").is_err());
    }

    #[test]
    fn more_than_one_put_takes_is_refused_before_anything_is_put() {
        let many = "{}\n".repeat(MAX_PUT_RECORDS + 1);
        assert!(read_flights(many.as_bytes()).is_err());
        let large = " ".repeat(usize::try_from(MAX_PUT_BYTES).unwrap() + 10);
        assert!(read_flights(large.as_bytes()).is_err());
    }
}
