//! `recto cursor-keys`: lists and rotates the keys that encrypt page tokens. No key is ever printed.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use recto::session::CursorKey;
use recto::{DEFAULT_EARLIER_CURSOR_KEYS, Session};
use serde_json::{Value as Json, json};

use super::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;
use crate::text::{counted, duration};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

const EXAMPLES: &str = "\
Examples:
  recto cursor-keys list                   show the keys and their ages
  recto cursor-keys rotate                 add a key that encrypts; the 3 before it still decrypt
  recto cursor-keys rotate --earlier 0     after a key leaked: reject all earlier page tokens

A process that has the store open learns of a new key when it gets a page token that the key encrypted. The \
keys themselves are never shown.";

/// Arguments of `recto cursor-keys`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CursorKeysArgs {
    #[command(subcommand)]
    pub(crate) command: CursorKeysCommand,
}

/// Commands for keys.
#[derive(Debug, Subcommand)]
pub(crate) enum CursorKeysCommand {
    /// Show the numbers and ages of the keys
    List(ListArgs),
    /// Add a key that encrypts from now on, and drop the oldest
    Rotate(RotateArgs),
}

/// Arguments of `recto cursor-keys list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto cursor-keys rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Number of earlier keys that still decrypt page tokens: 0 to 15
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_EARLIER_CURSOR_KEYS)]
    pub(crate) earlier: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl CursorKeysArgs {
    pub(crate) fn store(&self) -> &StoreArgs {
        match &self.command {
            CursorKeysCommand::List(args) => &args.store,
            CursorKeysCommand::Rotate(args) => &args.store,
        }
    }

    /// Opens the store: for writing if the command changes the keys, otherwise for reading.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Session>> {
        match &self.command {
            CursorKeysCommand::List(_) => self.store().open_to_read().await,
            CursorKeysCommand::Rotate(_) => self.store().open().await,
        }
    }
}

pub(crate) async fn run(args: &CursorKeysArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    match &args.command {
        CursorKeysCommand::List(args) => {
            let keys = session.tools()?.cursor_keys().await?;
            show(&keys, args.json, console)?;
        }
        CursorKeysCommand::Rotate(args) => {
            let keys = session.tools()?.rotate_cursor_keys(args.earlier).await?;
            if !args.json {
                let active = keys.iter().find(|key| key.encrypts).map_or(0, |key| key.id);
                let earlier = counted(keys.len().saturating_sub(1) as u64, "earlier key", "earlier keys");
                let mark = console.paint(Tone::Good, "✓");
                console.line(format_args!("{mark} key {active} encrypts now; {earlier} kept"))?;
            }
            show(&keys, args.json, console)?;
        }
    }
    Ok(Exit::Done)
}

fn show(keys: &[CursorKey], json: bool, console: &mut Console) -> Result<()> {
    if json {
        let keys: Vec<Json> = keys.iter().map(key_json).collect();
        return print_json(console, &json!({ "keys": keys }));
    }
    if keys.is_empty() {
        console.line("no cursor keys yet; applying the first schema creates them")?;
    }
    for key in keys {
        let use_of = if key.encrypts { "encrypts" } else { "decrypts" };
        let age = match key.age_seconds {
            Some(seconds) => format!("created {} ago", age(seconds)),
            None => "of unknown age".to_owned(),
        };
        let age = console.paint(Tone::Dim, &age);
        console.line(format_args!("  {:>5}  {use_of}  {age}", key.id))?;
    }
    Ok(())
}

/// Formats the age of a key. An age of two days or more is in whole days.
fn age(seconds: u64) -> String {
    match seconds / SECONDS_PER_DAY {
        0 | 1 => duration(Duration::from_secs(seconds)),
        days => counted(days, "day", "days"),
    }
}

fn key_json(key: &CursorKey) -> Json {
    json!({
        "id": key.id,
        "encrypts": key.encrypts,
        "created_at_seconds": key.created_at_seconds,
        "age_seconds": key.age_seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_days_from_two_days_on() {
        assert_eq!(age(5), "5.0 s");
        assert_eq!(age(2 * SECONDS_PER_DAY - 60), "47 h 59 min");
        assert_eq!(age(90 * SECONDS_PER_DAY), "90 days");
    }
}
