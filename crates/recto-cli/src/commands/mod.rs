//! Commands of the program, one module for each command.

#[cfg(feature = "cassandra")]
pub(crate) mod attach;
#[cfg(feature = "full")]
pub(crate) mod buckets;
#[cfg(feature = "full")]
pub(crate) mod completions;
#[cfg(feature = "full")]
pub(crate) mod config;
mod console_server;
#[cfg(feature = "full")]
pub(crate) mod copy;
#[cfg(feature = "full")]
pub(crate) mod cursor_keys;
pub(crate) mod demo;
#[cfg(feature = "full")]
pub(crate) mod demo_args;
#[cfg(feature = "full")]
pub(crate) mod describe;
#[cfg(feature = "full")]
pub(crate) mod design;
#[cfg(feature = "full")]
pub(crate) mod explain;
#[cfg(feature = "full")]
pub(crate) mod load;
mod loading;
#[cfg(feature = "full")]
pub(crate) mod page;
mod page_view;
#[cfg(feature = "full")]
pub(crate) mod queue;
#[cfg(feature = "full")]
pub(crate) mod records;
#[cfg(feature = "full")]
pub(crate) mod recover;
#[cfg(feature = "full")]
pub(crate) mod scan;
#[cfg(feature = "full")]
pub(crate) mod schema;
#[cfg(feature = "full")]
pub(crate) mod serve;
mod stdin_file;
#[cfg(feature = "full")]
pub(crate) mod token;
#[cfg(feature = "full")]
pub(crate) mod tune;
#[cfg(feature = "full")]
pub(crate) mod update;
#[cfg(feature = "full")]
pub(crate) mod upkeep;
#[cfg(feature = "full")]
pub(crate) mod views;

use std::sync::Arc;

use recto::schema::{Collection, Schema};
use serde_json::Value as Json;

#[cfg(feature = "full")]
use crate::cli::Command;
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
#[cfg(feature = "full")]
use views::{RepairArgs, VerifyArgs};

/// Runs a command of the program with all commands.
#[cfg(feature = "full")]
pub(crate) async fn run(command: Command, console: &mut Console) -> Result<Exit> {
    match command {
        Command::Demo(args) => demo::run(args.request()?, console).await,
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
        Command::Restore(args) => upkeep::restore(&args, console).await,
        Command::Copy(args) => copy::run(&args, console).await,
        Command::Compact(args) => upkeep::compact(&args, &*args.store.open().await?, console).await,
        Command::Check(args) => match args.drop_log_after {
            Some(last) => upkeep::drop_log(&args, last, console).await,
            None => upkeep::check(&args, &*args.store.open_to_read().await?, console).await,
        },
        Command::Views(args) => views::list(&args, &*args.store.open_to_read().await?, console).await,
        Command::Verify(VerifyArgs { which }) => {
            views::compare(&which, false, which.store.open_to_read().await?, console).await
        }
        Command::Repair(RepairArgs { which }) => {
            views::compare(&which, true, which.store.open().await?, console).await
        }
        Command::Recover(args) => recover::run(&args, &*args.store.open_to_read().await?, console).await,
        Command::Queue(args) => queue::run(&args, args.open(console).await?, console).await,
        Command::Buckets(args) => buckets::run(&args, args.open().await?, console).await,
        Command::Tune(args) => tune::run(&args, console).await,
        Command::CursorKeys(args) => cursor_keys::run(&args, &*args.open().await?, console).await,
        Command::Completions(args) => completions::run(&args, console),
    }
}

/// Returns the collection named `name`, or an error that suggests similar names.
pub(crate) fn collection_of<'a>(schema: &'a Schema, name: &str) -> Result<&'a Arc<Collection>> {
    schema
        .collection(name)
        .ok_or_else(|| recto::no_collection(schema, name).into())
}

/// Asks the user for confirmation of the changes that `command` has printed.
///
/// # Errors
/// There is no terminal to ask on.
pub(crate) fn agrees(question: &str, command: &str, console: &mut Console) -> Result<bool> {
    if !console.is_interactive() {
        console.flush()?;
        return Err(Failure::new(
            Exit::Refused,
            "there is no terminal to ask for confirmation; nothing was changed",
        )
        .with_hint(format!("run `{command} --yes` to skip the question")));
    }
    let agreed = console.confirm(question)?;
    if !agreed {
        console.line("Nothing was changed.")?;
    }
    Ok(agreed)
}

/// Prints a JSON document, with indentation for human readers.
pub(crate) fn print_json(console: &mut Console, json: &Json) -> Result<()> {
    console.line(format_args!("{json:#}"))?;
    Ok(())
}
