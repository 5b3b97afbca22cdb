//! The commands.

#[cfg(feature = "cassandra")]
pub(crate) mod attach;
pub(crate) mod buckets;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod cursor_keys;
pub(crate) mod demo;
pub(crate) mod describe;
pub(crate) mod design;
pub(crate) mod explain;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod queue;
pub(crate) mod records;
pub(crate) mod scan;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod sweep;
pub(crate) mod token;
pub(crate) mod tune;
pub(crate) mod update;
pub(crate) mod upkeep;
pub(crate) mod views;

use std::sync::Arc;

use recto::schema::{Collection, Schema};
use serde_json::Value as Json;

use crate::cli::Command;
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use views::{RepairArgs, VerifyArgs};

/// Runs a command.
pub(crate) async fn run(command: Command, console: &mut Console) -> Result<Exit> {
    match command {
        Command::Demo(args) => demo::run(&args, console).await,
        Command::Init(args) => schema::init(&args, console),
        Command::Plan(args) => schema::plan(&args, console).await,
        Command::Apply(args) => schema::apply(&args, console).await,
        Command::Describe(args) => describe::run(&args, &*args.store.open_to_read().await?, console).await,
        #[cfg(feature = "cassandra")]
        Command::Attach(args) => attach::run(&args, console).await,
        Command::Design(args) => design::run(&args, console),
        Command::Load(args) => load::run(&args, args.store.open().await?, console).await,
        Command::Page(args) => page::run(&args, &*args.store.open_to_read().await?, console).await,
        Command::Explain(args) => explain::run(&args, &*args.store.open_to_read().await?, console).await,
        Command::Scan(args) => scan::run(&args, &*args.store.open_to_read().await?, console).await,
        Command::Get(args) => records::get(&args, &*args.store.open_to_read().await?, console).await,
        Command::Put(args) => records::put(&args, &*args.store.open().await?, console).await,
        Command::Insert(args) => records::insert(&args, &*args.store.open().await?, console).await,
        Command::Update(args) => update::run(&args, &*args.store.open().await?, console).await,
        Command::Delete(args) => records::delete(&args, &*args.store.open().await?, console).await,
        Command::Serve(args) => serve::run(&args, console).await,
        Command::Token(args) => token::run(&args, console).await,
        Command::Config(args) => config::run(&args, console),
        Command::Backup(args) => upkeep::backup(&args, &*args.store.open_to_read().await?, console).await,
        Command::Copy(args) => copy::run(&args, console).await,
        Command::Compact(args) => upkeep::compact(&args, &*args.store.open().await?, console).await,
        Command::Check(args) => upkeep::check(&args, &*args.store.open_to_read().await?, console).await,
        Command::Views(args) => views::list(&args, &*args.store.open_to_read().await?, console).await,
        Command::Verify(VerifyArgs { which }) => {
            views::compare(&which, false, which.store.open_to_read().await?, console).await
        }
        Command::Repair(RepairArgs { which }) => {
            views::compare(&which, true, which.store.open().await?, console).await
        }
        Command::Sweep(args) => sweep::run(&args, &*args.store.open_to_read().await?, console).await,
        Command::Queue(args) => queue::run(&args, args.open(console).await?, console).await,
        Command::Buckets(args) => buckets::run(&args, args.open().await?, console).await,
        Command::Tune(args) => tune::run(&args, console).await,
        Command::CursorKeys(args) => cursor_keys::run(&args, &*args.open().await?, console).await,
        Command::Completions(args) => completions::run(&args, console),
    }
}

/// The collection of this name.
pub(crate) fn collection_of<'a>(schema: &'a Schema, name: &str) -> Result<&'a Arc<Collection>> {
    schema
        .collection(name)
        .ok_or_else(|| recto::no_collection(schema, name).into())
}

/// Asks who sits before the terminal whether `command` is to do what it showed.
///
/// # Errors
/// Nobody sits there.
pub(crate) fn agrees(question: &str, command: &str, console: &mut Console) -> Result<bool> {
    if !console.is_interactive() {
        console.flush()?;
        return Err(Failure::new(
            Exit::Refused,
            "there is no terminal to ask on; nothing was changed",
        )
        .with_hint(format!("{command} --yes does it without asking")));
    }
    let agreed = console.confirm(question)?;
    if !agreed {
        console.line("Nothing was changed.")?;
    }
    Ok(agreed)
}

/// Prints a JSON document: indented, since a person may read it and no program minds.
pub(crate) fn print_json(console: &mut Console, json: &Json) -> Result<()> {
    console.line(format_args!("{json:#}"))?;
    Ok(())
}
