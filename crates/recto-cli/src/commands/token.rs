//! `recto token`: creates, lists and revokes access tokens of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use recto::{Environment, ErrorKind, LocalSession, OpenOptions, Recto, Session as _};
use recto_api::display::span_seconds;
use recto_server::access::{EVERY_COLLECTION, Grant, QUEUE_PREFIX, Right, STORE};
use recto_server::auth::{StoredToken, StrangeToken, TokenError, TokenFile, parse_grants, show_grant};
use serde_json::{Value as Json, json};

use super::{collection_of, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::opening::environment;
use crate::store::{DEFAULT_STORE, StoreArgs};
use crate::text::{counted, duration, printable};

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;
/// Maximum lifetime of an access token, in seconds: ten years.
const MAX_LIFETIME_SECONDS: i64 = 3_660 * SECONDS_PER_DAY;
const MICROS_PER_SECOND: i64 = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  recto token create ada --grant '*:all'
  recto token create shop --grant 'orders:read,write' --grant 'users:read' --expires 90d
  recto token create ada --grant 'orders:read where customer = \"ada\"'
  recto token create ops --grant '@store:all' --grant '*:write'
  recto token create worker --grant 'queue.mails:receive' --grant 'queue.bounces:send'
  recto token list
  recto token revoke 1f0c7a52d9e4b683

A grant is COLLECTION:RIGHTS, or COLLECTION:RIGHTS where FILTER for some of the rows. `*` means every \
collection that no other grant names. Rights are read, export, write, delete, or all. With a filter, the \
token can see and change only rows that satisfy the filter. To write or delete, the filter must be on \
fields of the key. If no view serves the filter, lists need allow_filter_scan=true.

The queue NAME is queue.NAME, and queue.* means every queue that no other grant names. `*` includes no \
queue. Rights are read, send, receive (and ack), manage (create, change, delete, purge, redrive), or all.

@store means the store itself, which `*` does not include. A token with a filter cannot have this grant. \
Rights are:
  backup, compact, check, cursor-keys, apply (and plan)
  verify (of collections that the token may read)
  repair and load (of collections that the token may write)
  all

The secret is shown only once: the file has its hash. A running server applies changes of the file within a \
second.";

/// Arguments of `recto token`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// Commands for tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token, and show it once
    Create(CreateArgs),
    /// List the tokens, without their secrets
    List(ListArgs),
    /// Revoke a token: a running server rejects it within a second
    Revoke(RevokeArgs),
}

/// Location of the file of tokens.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File of tokens
    #[arg(
        long,
        value_name = "FILE",
        env = "RECTO_SERVE_TOKENS",
        default_value = "tokens.toml"
    )]
    pub(crate) tokens: PathBuf,
}

/// Arguments of `recto token create`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CreateArgs {
    /// Name of the token's owner, for lists and logs
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Grant; can be repeated: 'COLLECTION:RIGHTS', 'COLLECTION:RIGHTS where FILTER', 'queue.NAME:RIGHTS',
    /// '@store:RIGHTS'
    #[arg(long = "grant", value_name = "GRANT", required = true)]
    pub(crate) grants: Vec<String>,
    /// Lifetime of the token, at most ten years: 30m, 12h, 90d, 4w [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = lifetime_seconds)]
    pub(crate) expires: Option<i64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto token list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// Arguments of `recto token revoke`.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// Id of the token, as `recto token list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// Runs `recto token`: creates, lists or revokes access tokens.
pub(crate) async fn run(args: &TokenArgs, console: &mut Console) -> Result<Exit> {
    match &args.command {
        TokenCommand::Create(args) => create(args, console).await,
        TokenCommand::List(args) => list(args, console),
        TokenCommand::Revoke(args) => revoke(args, console),
    }
}

async fn create(args: &CreateArgs, console: &mut Console) -> Result<Exit> {
    let grants = parse_grants(args.grants.iter().map(String::as_str))?;
    check(&grants, &args.store, console).await?;
    let environment = Environment::system();
    let (text, token) = TokenFile::create(&args.file.tokens, &environment, &args.name, args.expires, grants)?;
    if args.json {
        let mut json = token_json(&token);
        json["token"] = text.reveal().into();
        print_json(console, &json)?;
        return Ok(Exit::Done);
    }
    let mark = console.err_paint(Tone::Good, "✓");
    let file = args.file.tokens.display();
    console.note(format_args!(
        "{mark} token {} for {} is in {file}",
        token.id,
        printable(&token.name)
    ))?;
    console.note("This is its secret, which is shown only once:")?;
    console.line(text.reveal())?;
    Ok(Exit::Done)
}

/// Rejects grants that do not fit the store's schema. Skips the check if the store cannot be
/// opened, for example because a server has it open. The server rejects invalid grants when clients
/// use them.
async fn check(grants: &BTreeMap<String, Grant>, store: &StoreArgs, console: &mut Console) -> Result<()> {
    let address = store.address(DEFAULT_STORE, environment())?;
    let session = match Recto::open_with(&address, OpenOptions::new().read_only()).await {
        Ok(recto) => LocalSession::new(recto),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unavailable) => {
            let why = error.message();
            let note = format!("note: the grants were not checked against a schema: {why}");
            console.note(console.err_paint(Tone::Dim, &note))?;
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let schema = session.schema().await?;
    for (name, grant) in grants {
        let mut names = vec![name.clone()];
        if name == STORE || name.starts_with(QUEUE_PREFIX) {
            continue;
        }
        if name == EVERY_COLLECTION {
            let others = schema
                .collections
                .iter()
                .map(|collection| collection.name.clone());
            names = others.filter(|other| !grants.contains_key(other)).collect();
        } else {
            collection_of(&schema, name)?;
        }
        for name in names.into_iter().filter(|_| !grant.rows.is_empty()) {
            check_rows(&session, &name, grant)?;
            warn_of_hidden_rows(&session, &name, grant, console)?;
        }
    }
    Ok(())
}

/// Warns about a token's row filter that no view serves: queries with the token must then read many
/// rows that it hides.
fn warn_of_hidden_rows(
    session: &LocalSession,
    collection: &str,
    grant: &Grant,
    console: &mut Console,
) -> Result<()> {
    let reads = grant.rights.contains(&Right::Read);
    if !reads || session.is_row_filter_served(collection, &grant.rows)? {
        return Ok(());
    }
    let warning = console.err_paint(Tone::Warning, "warning:");
    console.note(format_args!(
        "{warning} no view of {collection} serves `where {}`. Lists need allow_filter_scan=true with this \
         token: Recto may read thousands of hidden rows for a page. So a page may be short or empty, and \
         still have a next page. The token does not see costs. hint: declare a view whose partition is in \
         the filter",
        printable(&grant.rows)
    ))?;
    Ok(())
}

/// Rejects a token's row filter that does not fit the collection's fields or the granted rights.
/// For example, a token that may write needs a filter on key fields.
fn check_rows(session: &LocalSession, collection: &str, grant: &Grant) -> Result<()> {
    let is_write = |right: &Right| matches!(right, Right::Write | Right::Delete);
    let writes = grant.rights.iter().any(is_write);
    let Err(error) = session.check_row_filter(collection, &grant.rows, writes) else {
        return Ok(());
    };
    let hint = error.hint().unwrap_or_default().to_owned();
    let mut failure = Failure::from(error);
    failure.exit = Exit::Refused;
    let fits = session.check_row_filter(collection, &grant.rows, false);
    Err(failure.with_hint(if fits.is_ok() {
        format!("grant read and export only; {hint}")
    } else {
        format!("correct the filter after `where`; `recto describe {collection}` shows the fields")
    }))
}

fn list(args: &ListArgs, console: &mut Console) -> Result<Exit> {
    let file = TokenFile::read(&args.file.tokens)?;
    if args.json {
        let tokens: Vec<Json> = file.tokens.iter().map(token_json).collect();
        print_json(console, &json!({ "tokens": tokens }))?;
        return Ok(Exit::Done);
    }
    if file.tokens.is_empty() && file.strange.is_empty() {
        console.line("no tokens; `recto token create` creates one")?;
    }
    let now = Environment::system().now_micros() / MICROS_PER_SECOND;
    for token in &file.tokens {
        let times = console.paint(Tone::Dim, &times(token, now));
        console.line(format_args!("{}  {}  {times}", token.id, printable(&token.name)))?;
        for (collection, grant) in &token.grants {
            console.line(format_args!("    {}", printable(&show_grant(collection, grant))))?;
        }
    }
    for StrangeToken { id, name, reason, .. } in &file.strange {
        let (id, name) = (printable(id), printable(name));
        let not_taken = format!("not supported by this release: {}", printable(reason));
        console.line(format_args!(
            "{id}  {name}  {}",
            console.paint(Tone::Warning, &not_taken)
        ))?;
    }
    Ok(Exit::Done)
}

fn times(token: &StoredToken, now: i64) -> String {
    let made = format!("created {} ago", span(now - token.created_at_seconds));
    match token.expires_at_seconds {
        None => made,
        Some(expires) if expires <= now => format!("{made}, expired {} ago", span(now - expires)),
        Some(expires) => format!("{made}, expires in {}", span(expires - now)),
    }
}

fn span(seconds: i64) -> String {
    let seconds = seconds.max(0).unsigned_abs();
    match seconds / SECONDS_PER_DAY.unsigned_abs() {
        0 | 1 => duration(Duration::from_secs(seconds)),
        days => counted(days, "day", "days"),
    }
}

fn token_json(token: &StoredToken) -> Json {
    let grants = token
        .grants
        .iter()
        .map(|(collection, grant)| show_grant(collection, grant));
    json!({
        "id": token.id,
        "name": token.name,
        "grants": grants.collect::<Vec<_>>(),
        "created_at_seconds": token.created_at_seconds,
        "expires_at_seconds": token.expires_at_seconds,
    })
}

fn revoke(args: &RevokeArgs, console: &mut Console) -> Result<Exit> {
    let name = TokenFile::revoke(&args.file.tokens, &args.id)?;
    let mark = console.paint(Tone::Good, "✓");
    console.line(format_args!(
        "{mark} token {} of {} is revoked; servers reject it within a second",
        args.id,
        printable(&name)
    ))?;
    Ok(Exit::Done)
}

/// Parses the lifetime of a token, such as `30m`, `12h`, `90d` or `4w`. Returns seconds.
fn lifetime_seconds(text: &str) -> std::result::Result<i64, String> {
    span_seconds(text)
        .and_then(|seconds| i64::try_from(seconds).ok())
        .filter(|seconds| (1..=MAX_LIFETIME_SECONDS).contains(seconds))
        .ok_or_else(|| "a whole number with s, m, h, d or w, at most ten years: 30m, 12h, 90d, 4w".to_owned())
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        let failure = Self::new(super::console_server::exit_of(&error), error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_units() {
        assert_eq!(lifetime_seconds("30m"), Ok(1_800));
        assert_eq!(lifetime_seconds("90d"), Ok(7_776_000));
        assert_eq!(lifetime_seconds("2w"), Ok(1_209_600));
        for text in [
            "",
            "90",
            "d",
            "0d",
            "-1d",
            "1.5h",
            "9999999d",
            "99999999999999999999w",
            "1é",
        ] {
            assert!(lifetime_seconds(text).is_err(), "{text}");
        }
    }
}
