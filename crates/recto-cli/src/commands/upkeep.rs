//! `recto backup`, `recto restore`, `recto compact` and `recto check`: maintenance of an embedded store.

use std::path::{Path, PathBuf};

use clap::Args;
use recto::session::CheckOutcome;
use recto::{
    ErrorKind, LocalSession, OpenOptions, Session, StoreAddress, check_restore_folder, drop_commit_log_after,
};
use serde_json::json;

use super::{agrees, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::opening::{environment, open};
use crate::progress::Meter;
use crate::store::{DEFAULT_STORE, MAKES_A_STORE, StoreArgs, not_opened};
use crate::text::{bytes, counted, duration, grouped, printable, rows};

/// Maximum number of problems of a store that `recto check` prints as text; `--json` lists all.
const MAX_PROBLEMS_DRAWN: usize = 20;

const BACKUP_EXAMPLES: &str = "\
Examples:
  recto backup /mnt/backup/2026-11-21
  recto page posts --store /mnt/backup/2026-11-21      open a backup like any store
  recto backup 2026-11-21 --store http://db:8080       create a folder in the server's --backup-folder";

/// Arguments of `recto backup`.
#[derive(Debug, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct BackupArgs {
    /// Folder to create, which must not exist; through a server, only its name
    #[arg(value_name = "FOLDER")]
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

const RESTORE_EXAMPLES: &str = "\
Examples:
  recto restore /mnt/backup/2026-11-21 --store shop.data
  recto restore /mnt/backup/2026-11-21 --store shop.data --json

Every row of the backup is checked first, then the backup is copied to the folder. The folder must not \
exist yet, or be empty. An interrupted restore leaves no incomplete store: run the same command again. The \
backup is not changed.";

/// Arguments of `recto restore`.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// Folder of the backup, as `recto backup` created it
    backup: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

const COMPACT_EXAMPLES: &str = "\
Examples:
  recto compact --store recto-demo";

/// Arguments of `recto compact`.
#[derive(Debug, Args)]
#[command(after_help = COMPACT_EXAMPLES)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  recto check
  recto check --store /mnt/backup/2026-11-21 --json
  recto check --drop-log-after 5120 --store shop.data

Without --drop-log-after, the command changes nothing. It reads every row of an embedded store, and verifies its checksum. On \
Cassandra, it compares tables with the schema, and numbers of copies with numbers of nodes; `nodetool \
verify` checks rows. The exit code is 4 if there are problems.

--drop-log-after is for an embedded store that cannot be opened because its commit log (the files log.0 and \
log.1) is damaged. It loses acknowledged writes: first copy the folder, and look for intact files or a recent \
backup. The error of the damaged log names the first record that is not valid or cannot be applied: give the \
number before it. If the error names no record, give 0.";

/// Arguments of `recto check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Give up the records of a damaged commit log after this number, so that the store can be opened
    #[arg(long, value_name = "NUMBER")]
    pub(crate) drop_log_after: Option<u64>,
    /// Do not ask for confirmation of --drop-log-after
    #[arg(long, requires = "drop_log_after")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Format of the output.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct OutputArgs {
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs `recto backup`: copies an embedded store while it is open.
pub(crate) async fn backup(args: &BackupArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let meter = Meter::start(console, args.output.quiet);
    let copied = session
        .tools()?
        .backup(&args.to, &|progress| meter.store(progress))
        .await?;
    let elapsed = meter.elapsed();
    meter.finish();
    let (to, copied) = (copied.folder, copied.bytes);
    if args.output.json {
        print_json(console, &json!({ "to": to, "bytes": copied }))?;
    } else {
        let done = console.paint(Tone::Good, "✓");
        console.line(format_args!(
            "{done} copied {} to {} in {}",
            bytes(copied),
            printable(&to),
            duration(elapsed)
        ))?;
    }
    Ok(Exit::Done)
}

/// Runs `recto restore`: checks a backup, and copies it to the folder of a store.
pub(crate) async fn restore(args: &RestoreArgs, console: &mut Console) -> Result<Exit> {
    let StoreAddress::Embedded(to) = args.store.address(DEFAULT_STORE, environment())? else {
        return Err(
            Failure::new(Exit::Refused, "cannot restore a backup to Cassandra or a server").with_hint(
                "restore the backup to a folder (--store FOLDER); `recto copy` copies a folder to Cassandra",
            ),
        );
    };
    let from = StoreAddress::Embedded(PathBuf::from(&args.backup));
    let options = OpenOptions::new().read_only().wait(args.store.wait()?);
    let no_backup = "name the folder of a backup, as `recto backup FOLDER` created it";
    let backup = open(&from, options)
        .await
        .map_err(|error| not_opened(error, no_backup))?;
    // Check the target folder before the backup, because checking the backup may take long.
    refuse_folder(&to)?;
    let session = LocalSession::new(backup.clone());
    let meter = Meter::start(console, args.output.quiet);
    let checked = session.tools()?.check(&|progress| meter.store(progress)).await?;
    if !checked.problems.is_empty() {
        meter.finish();
        return Err(damaged_backup(&args.backup, &checked));
    }
    let copied = backup.restore_to(&to, &|progress| meter.store(progress)).await?;
    let elapsed = meter.elapsed();
    meter.finish();
    let to = to.display().to_string();
    if args.output.json {
        print_json(
            console,
            &json!({ "to": to, "bytes": copied, "rows": checked.rows }),
        )?;
    } else {
        let done = console.paint(Tone::Good, "✓");
        console.line(format_args!(
            "{done} restored {} ({}) to {} in {}",
            rows(checked.rows),
            bytes(copied),
            printable(&to),
            duration(elapsed)
        ))?;
    }
    Ok(Exit::Done)
}

/// Rejects a target folder of a restore that exists and is not empty.
fn refuse_folder(folder: &Path) -> Result<()> {
    let Err(error) = check_restore_folder(folder) else {
        return Ok(());
    };
    let mut failure = Failure::from(error);
    failure.exit = Exit::Refused;
    Err(failure.with_hint(
        "restore to another folder (--store FOLDER); to replace a store, stop the processes that use it and rename its folder \
         first",
    ))
}

#[cold]
fn damaged_backup(backup: &str, checked: &CheckOutcome) -> Failure {
    let count = counted(checked.problems.len() as u64, "problem", "problems");
    let first = checked.problems.first().map(String::as_str).unwrap_or_default();
    Failure::new(
        Exit::Failed,
        format!("the backup {backup} is damaged ({count}, the first: {first}); nothing was restored"),
    )
    .with_hint(format!(
        "restore another backup; `recto check --store {backup}` lists all problems"
    ))
}

/// Runs `recto compact`: returns unused space of an embedded store to the file system.
pub(crate) async fn compact(
    args: &CompactArgs,
    session: &dyn Session,
    console: &mut Console,
) -> Result<Exit> {
    let meter = Meter::start(console, args.output.quiet);
    let (before, after) = session
        .tools()?
        .compact(&|progress| meter.store(progress))
        .await?;
    let elapsed = meter.elapsed();
    meter.finish();
    if args.output.json {
        print_json(console, &json!({ "bytes_before": before, "bytes_after": after }))?;
    } else {
        let done = console.paint(Tone::Good, "✓");
        console.line(format_args!(
            "{done} {} → {} in {}",
            bytes(before),
            bytes(after),
            duration(elapsed)
        ))?;
    }
    Ok(Exit::Done)
}

/// Runs `recto check`: checks every row of an embedded store, or the tables on Cassandra.
pub(crate) async fn check(args: &CheckArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let meter = Meter::start(console, args.output.quiet);
    let outcome = session.tools()?.check(&|progress| meter.store(progress)).await?;
    let elapsed = meter.elapsed();
    meter.finish();
    let exit = if outcome.problems.is_empty() {
        Exit::Done
    } else {
        Exit::Partly
    };
    if args.output.json {
        let collections: serde_json::Map<_, _> = outcome
            .collections
            .iter()
            .map(|one| (one.name.clone(), one.rows.into()))
            .collect();
        print_json(
            console,
            &json!({
                "rows": outcome.rows,
                "collections": collections,
                "internal_rows": outcome.internal_rows,
                "tables": outcome.tables,
                "problems": outcome.problems,
                "notes": outcome.notes,
            }),
        )?;
        return Ok(exit);
    }
    let reads_rows = outcome.tables == 0 || !outcome.collections.is_empty();
    let checked = if reads_rows {
        format!("{} checked in {}", rows(outcome.rows), duration(elapsed))
    } else {
        let tables = counted(outcome.tables, "table", "tables");
        format!("{tables} compared with the schema in {}", duration(elapsed))
    };
    if outcome.problems.is_empty() {
        console.line(format_args!(
            "{} {checked}; all is well",
            console.paint(Tone::Good, "✓")
        ))?;
        draw_collections(&outcome, console)?;
        draw_notes(&outcome, console)?;
        return Ok(exit);
    }
    let count = counted(outcome.problems.len() as u64, "problem", "problems");
    console.line(format_args!(
        "{} {checked}; {count}",
        console.paint(Tone::Bad, "✗")
    ))?;
    draw_collections(&outcome, console)?;
    for problem in outcome.problems.iter().take(MAX_PROBLEMS_DRAWN) {
        console.line(format_args!("  {}", printable(problem)))?;
    }
    let more = outcome.problems.len().saturating_sub(MAX_PROBLEMS_DRAWN);
    if more > 0 {
        console.line(format_args!("  and {more} more; --json lists all"))?;
    }
    draw_notes(&outcome, console)?;
    if reads_rows {
        console.line("Do not trust the listed rows. Restore the store from a backup.")?;
    }
    Ok(exit)
}

/// Runs `recto check --drop-log-after`: gives up the records of a damaged commit log after the number `last`.
pub(crate) async fn drop_log(args: &CheckArgs, last: u64, console: &mut Console) -> Result<Exit> {
    let StoreAddress::Embedded(folder) = args.store.address(DEFAULT_STORE, environment())? else {
        return Err(Failure::new(
            Exit::Refused,
            "--drop-log-after needs the folder of an embedded store",
        )
        .with_hint(
            "run this command on the machine that has the folder (--store FOLDER), and stop the server \
                 of the store first; a store on Cassandra has no commit log of Recto",
        ));
    };
    let address = StoreAddress::Embedded(folder.clone());
    let options = OpenOptions::new().read_only().wait(args.store.wait()?);
    let damage = match open(&address, options).await {
        Ok(_) => {
            return Err(Failure::new(
                Exit::Refused,
                "the commit log is not damaged, because the store can be opened; no record was given up",
            )
            .with_hint("run `recto check` without --drop-log-after"));
        }
        Err(error) if error.kind() == ErrorKind::Corrupt => error,
        Err(error) => return Err(not_opened(error, MAKES_A_STORE)),
    };
    if !args.output.json {
        console.line(format_args!(
            "{address} cannot be opened: {}.",
            printable(damage.message())
        ))?;
        console.line(format_args!(
            "Recto will give up the records of the commit log after number {}. The writes of these records \
             are lost, although they were acknowledged. The store keeps all earlier writes. The files of the \
             log get the names log.0.dropped and log.1.dropped.",
            grouped(last)
        ))?;
    }
    let command = format!("recto check --drop-log-after {last}");
    if !args.yes && !agrees("Give up these writes?", &command, console)? {
        return Ok(Exit::Done);
    }
    let kept = drop_commit_log_after(folder, last).await?;
    if args.output.json {
        print_json(console, &json!({ "last_record": kept }))?;
    } else {
        let done = console.paint(Tone::Good, "✓");
        console.line(format_args!(
            "{done} the store has the writes up to record {}; run `recto check` to check them",
            grouped(kept)
        ))?;
    }
    Ok(Exit::Done)
}

/// Prints the notes of `recto check`, which are not problems.
fn draw_notes(outcome: &CheckOutcome, console: &mut Console) -> Result<()> {
    for note in &outcome.notes {
        console.line(format_args!(
            "  {} {}",
            console.paint(Tone::Dim, "note:"),
            printable(note)
        ))?;
    }
    Ok(())
}

/// Prints the checked collections with the number of rows of each.
fn draw_collections(outcome: &CheckOutcome, console: &mut Console) -> Result<()> {
    let width = |text: &str| text.chars().count();
    let names = outcome.collections.iter().map(|one| width(&one.name)).max();
    let counts: Vec<String> = outcome.collections.iter().map(|one| grouped(one.rows)).collect();
    let digits = counts.iter().map(String::len).max().unwrap_or(0);
    for (collection, count) in outcome.collections.iter().zip(&counts) {
        let padding = names.unwrap_or(0) - width(&collection.name);
        console.line(format_args!(
            "  {}{:padding$}  {count:>digits$}",
            collection.name, ""
        ))?;
    }
    Ok(())
}
