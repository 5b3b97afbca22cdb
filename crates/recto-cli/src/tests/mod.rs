//! Tests of complete outputs of commands, with a fake session that has fixed rows.
#![allow(clippy::unwrap_used)]

mod buckets;
mod demo;
mod design;
mod fake;
mod help;
mod listing;
pub(crate) mod replies;
mod schemas;
mod tune;
mod upkeep;
mod views;
mod writing;

use std::fmt::Write as _;
use std::sync::Arc;

use crate::cli::{Cli, Command};
use crate::commands;
use crate::console::{Console, Screen};
use crate::failure::{Exit, Result};
use fake::FakeSession;

/// Operations that the output of a test omits, because the output already shows their replies.
const OMITTED: [&str; 10] = [
    "check",
    "commit_log",
    "compact",
    "cursor_keys",
    "describe",
    "explain",
    "plan",
    "row_sizes",
    "schema",
    "views",
];

/// Runs a command line with a fake session. Returns standard output, standard error and the exit
/// code as text.
async fn run(session: FakeSession, console: (Console, Screen), line: &[&str]) -> String {
    let session = Arc::new(session);
    let (mut console, screen) = console;
    let outcome = dispatch(Arc::clone(&session), &mut console, line).await;
    let exit = crate::finish(outcome, &mut console);
    let mut shown = screen.out();
    if !screen.err().is_empty() {
        write!(shown, "--- standard error\n{}", screen.err()).unwrap();
    }
    let mut requests = session.requests();
    requests.retain(|request| !OMITTED.iter().any(|operation| request.starts_with(operation)));
    if !requests.is_empty() {
        writeln!(shown, "--- asked\n{}", requests.join("\n")).unwrap();
    }
    if exit != Exit::Done {
        writeln!(shown, "--- exit {}", exit.code()).unwrap();
    }
    shown
}

/// Runs a command line on a session. Supports only commands that need nothing but the session.
async fn dispatch(session: Arc<FakeSession>, console: &mut Console, line: &[&str]) -> Result<Exit> {
    let cli = Cli::read(std::iter::once("recto").chain(line.iter().copied()));
    let session: Arc<dyn recto::Session> = session;
    match cli.unwrap().command {
        Command::Describe(args) => commands::describe::run(&args, &*session, console).await,
        Command::Load(args) => commands::load::run(&args, session, console).await,
        Command::Page(args) => commands::page::run(&args, &*session, console).await,
        Command::Explain(args) => commands::explain::run(&args, &*session, console).await,
        Command::Scan(args) => commands::scan::run(&args, &*session, console).await,
        Command::Get(args) => commands::records::get(&args, &*session, console).await,
        Command::Put(args) => commands::records::put(&args, &*session, console).await,
        Command::Insert(args) => commands::records::insert(&args, &*session, console).await,
        Command::Update(args) => commands::update::run(&args, &*session, console).await,
        Command::Delete(args) => commands::records::delete(&args, &*session, console).await,
        Command::Backup(args) => commands::upkeep::backup(&args, &*session, console).await,
        Command::Compact(args) => commands::upkeep::compact(&args, &*session, console).await,
        Command::Check(args) => commands::upkeep::check(&args, &*session, console).await,
        Command::Views(args) => commands::views::list(&args, &*session, console).await,
        Command::Verify(args) => commands::views::compare(&args.which, false, session, console).await,
        Command::Repair(args) => commands::views::compare(&args.which, true, session, console).await,
        Command::Recover(args) => commands::recover::run(&args, &*session, console).await,
        Command::CursorKeys(args) => commands::cursor_keys::run(&args, &*session, console).await,
        Command::Buckets(args) => commands::buckets::run(&args, session, console).await,
        Command::Design(args) => commands::design::run(&args, console),
        Command::Tune(args) => commands::tune::run(&args, console).await,
        other => panic!("{other:?} opens its store by itself"),
    }
}

/// Creates a recorded console of 100 columns.
fn console() -> (Console, Screen) {
    Console::captured(100)
}
