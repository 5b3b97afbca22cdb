//! `recto update`: changes some fields of a record.

use std::io::Read as _;
use std::sync::Arc;

use clap::Args;
use recto::schema::Collection;
use recto::session::{Action, JsonRecord, RecordChange, json_of_text};
use recto::{DynamicRecord, Session};
use serde_json::Value as Json;

use super::collection_of;
use super::records::{IfVersion, key_of, tell_outcome};
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::store::StoreArgs;

/// Maximum size of the JSON object with the new fields, in bytes.
const MAX_PATCH_BYTES: u64 = 16 << 20;

const EXAMPLES: &str = "\
Examples:
  recto update users 7 status=away
  recto update users 7 status=here suspended_until= --if-version 1763740800000000
  echo '{\"note\": \"\", \"tags\": [\"a\", \"b\"], \"status\": null}' | recto update users 7

The collection must have writes = \"update\". Other fields do not change. As in CSV, a nested value is \
JSON, and an empty value is null. Without FIELD=VALUE, the command reads a JSON merge patch from standard \
input, in which null clears a field.

Give the values of the key fields in the key's order, each as an argument. Or join the percent-encoded \
values by commas in one argument, as in the HTTP path of a record. Write -- before a key that begins with -.";

/// Arguments of `recto update`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpdateArgs {
    /// Name of the collection
    pub(crate) collection: String,
    /// Values of the key fields, then fields with their new values: KEY… FIELD=VALUE…
    #[arg(
        required = true,
        allow_negative_numbers = true,
        value_name = "KEY… FIELD=VALUE"
    )]
    pub(crate) given: Vec<String>,
    #[command(flatten)]
    pub(crate) version: IfVersion,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto update`: changes fields of one record.
pub(crate) async fn run(args: &UpdateArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let schema = session.schema().await?;
    let collection = collection_of(&schema, &args.collection)?;
    let (key, assignments) = args.given.split_at(key_len(collection, &args.given));
    let key = key_of(collection, key)?;
    let fields = if assignments.is_empty() {
        if console.input_is_terminal() {
            console.note("Reading a JSON merge patch; Ctrl-D ends the input.")?;
        }
        read_patch(collection, console.input())?
    } else {
        assigned(collection, assignments)?
    };
    let update = RecordChange::new(&args.collection, Action::Update { key, fields });
    let outcome = session.change(update.if_version(args.version.if_version)).await?;
    tell_outcome("updated 1 record", outcome, console)?;
    Ok(Exit::Done)
}

/// Returns the number of arguments that form the key. The number is 1 if the user joined the key's
/// values with commas.
fn key_len(collection: &Collection, given: &[String]) -> usize {
    let fields = collection.key.len();
    let is_assignment = |text: &String| {
        text.split_once('=')
            .is_some_and(|(name, _)| collection.field(name).is_some())
    };
    let is_joined = given
        .first()
        .is_some_and(|first| first.split(',').count() == fields);
    if is_joined && given[1..].iter().all(is_assignment) {
        return 1;
    }
    fields.min(given.len())
}

fn assigned(collection: &Collection, assignments: &[String]) -> Result<JsonRecord> {
    let mut fields = JsonRecord::new();
    for assignment in assignments {
        let Some((name, text)) = assignment.split_once('=') else {
            return Err(
                Failure::new(Exit::Refused, format!("{assignment:?} is not FIELD=VALUE"))
                    .with_hint("write each field to change as FIELD=VALUE, after the key"),
            );
        };
        let value = match collection.field(name) {
            _ if text.is_empty() => Json::Null,
            Some((_, field)) => json_of_text(&field.ty, text),
            // Pass an unknown field to the session as text, because the session rejects it with a
            // better error.
            None => text.into(),
        };
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(Failure::new(Exit::Refused, format!("{name} is given twice")));
        }
    }
    Ok(fields)
}

/// Parses the new values of fields from a JSON object, without loss of digits. Null clears a field.
fn read_patch(definition: &Arc<Collection>, input: &mut dyn std::io::BufRead) -> Result<JsonRecord> {
    let mut text = String::new();
    let read = input.take(MAX_PATCH_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::new(Exit::Failed, format!("cannot read standard input: {error}")))?;
    if text.len() as u64 > MAX_PATCH_BYTES {
        return Err(Failure::new(Exit::Refused, "the patch is larger than 16 MiB"));
    }
    let given = DynamicRecord::from_json_text(Arc::clone(definition), &text)?.to_json();
    let patch: JsonRecord = serde_json::from_str(&text).unwrap_or_default();
    let value = |name: &String| (name.clone(), given.get(name).cloned().unwrap_or_default());
    Ok(patch.keys().map(value).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::replies::flights;

    fn key_len_of(given: &[&str]) -> usize {
        let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
        key_len(&flights().collections[0], &given)
    }

    #[test]
    fn the_key_is_told_from_what_is_assigned() {
        assert_eq!(key_len_of(&["2013-01-01T10:00:00Z,UA,1545", "tailnum=N1"]), 1);
        assert_eq!(
            key_len_of(&["2013-01-01T10:00:00Z", "UA", "1545", "tailnum=N1"]),
            3
        );
        assert_eq!(key_len_of(&["a,b,c", "U=A", "1545", "tailnum=N1"]), 3);
        assert_eq!(key_len_of(&["a", "b"]), 2);
    }

    #[test]
    fn an_empty_value_is_null_and_numbers_are_those_of_their_fields() {
        let collection = &flights().collections[0];
        let given = ["tailnum=".to_owned(), "flight=7".to_owned()];
        assert_eq!(
            Json::Object(assigned(collection, &given).unwrap()),
            json!({ "tailnum": null, "flight": 7 })
        );
        assert!(assigned(collection, &["tailnum".to_owned()]).is_err());
        assert!(assigned(collection, &["tailnum=a".to_owned(), "tailnum=b".to_owned()]).is_err());
    }

    #[test]
    fn a_patch_is_read_with_what_it_clears() {
        let collection = &flights().collections[0];
        let mut text = &br#"{"tailnum": null, "flight": 7}"#[..];
        let fields = read_patch(collection, &mut text).unwrap();
        assert_eq!(Json::Object(fields), json!({ "tailnum": null, "flight": 7 }));
        for wrong in [&b"[]"[..], b"", b"{\"flihgt\": 1}", b"\xff"] {
            let mut text = wrong;
            assert!(read_patch(collection, &mut text).is_err());
        }
    }
}
