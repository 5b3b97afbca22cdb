//! `recto init`, `recto plan` and `recto apply`: create a schema file, and apply it to a store.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use recto::schema::{EXAMPLE, MAX_SCHEMA_BYTES, Schema};
use recto::session::{Applied, SchemaPlan};
use recto::{ApplyOptions, Session};
use serde_json::json;

use super::{agrees, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::opening::{Place, environment};
use crate::progress::Meter;
use crate::store::{DEFAULT_STORE, StoreArgs};
use crate::text::{printable, printable_lines};

pub(super) const DEFAULT_FILE: &str = "recto.toml";

const INIT_EXAMPLES: &str = "\
Examples:
  recto init                   write recto.toml
  recto init shop.toml         write shop.toml; an existing file is never replaced";

/// Arguments of `recto init`.
#[derive(Debug, Args)]
#[command(after_help = INIT_EXAMPLES)]
pub(crate) struct InitArgs {
    /// Schema file to write
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    pub(crate) file: PathBuf,
}

const PLAN_EXAMPLES: &str = "\
Examples:
  recto plan
  recto plan --schema shop.toml --store cassandra://db1/shop";

/// Removals and permissions of `plan` and `apply`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RemoveArgs {
    /// Remove a collection with all its records, a view (`orders.by_customer`) or a unique constraint
    /// (`users.unique.email`, `users.unique.tenant,slug`) that the schema file does not name. Without this
    /// option, the store keeps everything that the file does not name. Can be repeated
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
    /// Add views and unique constraints although records do not fit them; these records are then missing from the views
    #[arg(long)]
    allow_misfits: bool,
}

impl RemoveArgs {
    fn options(&self) -> ApplyOptions {
        let mut options = ApplyOptions::new();
        options.remove.clone_from(&self.remove);
        options.allow_misfits = self.allow_misfits;
        options
    }
}

/// Arguments of `recto plan`.
#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub(crate) struct PlanArgs {
    /// Schema file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    pub(crate) schema: PathBuf,
    #[command(flatten)]
    pub(crate) remove: RemoveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

const APPLY_EXAMPLES: &str = "\
Examples:
  recto apply                                  show the changes, ask, and make them
  recto apply --schema shop.toml --yes         do not ask; needed without a terminal
  recto apply --store cassandra://db1/shop     create the keyspace, too, if it does not exist
  recto apply --remove orders                  remove a collection that the file does not name
  recto apply --remove users.unique.email      let records share values of a field again
  recto apply --allow-misfits                  add a view that cannot have all records
  recto apply --rate 20000                     limit the load while new views are filled";

/// Arguments of `recto apply`.
#[derive(Debug, Args)]
#[command(after_help = APPLY_EXAMPLES)]
pub(crate) struct ApplyArgs {
    /// Schema file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    pub(crate) schema: PathBuf,
    #[command(flatten)]
    pub(crate) remove: RemoveArgs,
    /// Maximum number of records per second to fill new views with [default: no limit]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print JSON; needs --yes
    #[arg(long, requires = "yes")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto init`: writes an example schema with comments.
pub(crate) fn init(args: &InitArgs, console: &mut Console) -> Result<Exit> {
    let file = OpenOptions::new().write(true).create_new(true).open(&args.file);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::new(
            Exit::Refused,
            format!("{} already exists; nothing was changed", args.file.display()),
        )
        .with_hint("name another file: recto init other.toml"),
        _ => Failure::file("write", &args.file, &error),
    })?;
    file.write_all(EXAMPLE.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| Failure::file("write", &args.file, &error))?;
    let shown = args.file.display();
    let schema = if args.file == Path::new(DEFAULT_FILE) {
        String::new()
    } else {
        format!(" --schema {shown}")
    };
    console.line(format_args!("{} wrote {shown}", console.paint(Tone::Good, "✓")))?;
    console.line("")?;
    console.line("Next: declare your collections in this file, then run")?;
    console.line(format_args!("  recto plan{schema}     shows the changes"))?;
    console.line(format_args!("  recto apply{schema}    makes them"))?;
    Ok(Exit::Done)
}

/// Runs `recto plan`: prints the changes that `recto apply` would make.
pub(crate) async fn plan(args: &PlanArgs, console: &mut Console) -> Result<Exit> {
    let schema = asked_schema(&args.schema, &args.remove)?;
    let place = Place {
        address: args.store.address(DEFAULT_STORE, environment())?,
        options: args.store.with_parameters(recto::OpenOptions::new())?,
        wait: args.store.wait()?,
    };
    let session = place.open_to_read().await?;
    let plan = Planned::of(&schema, &args.remove.options(), &place, session.as_deref()).await?;
    show_plan(&plan, args.json, console)
}

/// Runs `recto apply`: changes the store so that it has the schema of the file.
pub(crate) async fn apply(args: &ApplyArgs, console: &mut Console) -> Result<Exit> {
    let schema = asked_schema(&args.schema, &args.remove)?;
    let place = Place {
        address: args.store.address(DEFAULT_STORE, environment())?,
        options: args.store.with_parameters(recto::OpenOptions::new())?,
        wait: args.store.wait()?,
    };
    let session = place.open().await?;
    let plan = Planned::of(&schema, &args.remove.options(), &place, session.as_deref()).await?;
    if !is_agreed(&plan, args.yes, args.json, console)? {
        return Ok(Exit::Done);
    }
    // Create the store here and not earlier, because the user has now agreed to the plan.
    let session = match session {
        Some(session) => session,
        None => place.open_or_create().await?,
    };
    let mut options = args.remove.options();
    options.rows_per_second = args.rate;
    let meter = Meter::start(console, args.quiet);
    let applied = session
        .tools()?
        .apply(&schema, &options, &|progress| meter.view(&progress))
        .await;
    meter.finish();
    let applied = applied?;
    show_applied(&applied, args.json, console)
}

/// Planned schema change: the store, and the changes that applying a schema would make.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) store: String,
    pub(crate) plan: SchemaPlan,
}

impl Planned {
    async fn of(
        schema: &Schema,
        options: &ApplyOptions,
        place: &Place,
        session: Option<&dyn Session>,
    ) -> Result<Self> {
        let plan = match session {
            Some(session) => session.tools()?.plan(schema, options).await?,
            None => recto::plan_without_store(&place.address, schema, options).await?,
        };
        Ok(Self {
            store: place.address.to_string(),
            plan,
        })
    }
}

/// Prints the plan of a schema change that is not executed.
pub(crate) fn show_plan(planned: &Planned, json: bool, console: &mut Console) -> Result<Exit> {
    let plan = &planned.plan;
    if json {
        print_json(console, &json!(plan))?;
    } else {
        draw_plan(planned, console)?;
        if plan.rejected.is_empty() && !plan.changes.is_empty() {
            console.line("")?;
            console.line(console.paint(
                Tone::Dim,
                "Nothing was changed. `recto apply` makes these changes.",
            ))?;
        }
    }
    Ok(if plan.rejected.is_empty() {
        Exit::Done
    } else {
        Exit::Refused
    })
}

/// Prints the plan of a schema change, and asks the user whether to execute it.
pub(crate) fn is_agreed(planned: &Planned, yes: bool, json: bool, console: &mut Console) -> Result<bool> {
    let plan = &planned.plan;
    if !json {
        draw_plan(planned, console)?;
    }
    if !plan.rejected.is_empty() {
        let mut message = String::from("the schema cannot be applied; nothing was changed");
        if json {
            message = format!("{message}: {}", plan.rejected.join("; "));
        }
        let hint = if plan.misfits.is_empty() {
            "correct the schema, then run `recto plan` again"
        } else {
            "change the records that do not fit, or use --allow-misfits to leave them out of the views"
        };
        return Err(Failure::new(Exit::Refused, message).with_hint(hint));
    }
    if plan.changes.is_empty() || yes {
        return Ok(true);
    }
    if console.is_interactive() {
        console.line("")?;
    }
    agrees("Apply these changes?", "recto apply", console)
}

/// Prints the changes that applying a schema made.
pub(crate) fn show_applied(applied: &Applied, json: bool, console: &mut Console) -> Result<Exit> {
    if json {
        print_json(
            console,
            &json!({
                "generation": applied.generation,
                "changes": applied.changes,
                "kept": applied.kept,
                "misfits": applied.misfits,
            }),
        )?;
    } else if !applied.changes.is_empty() {
        let done = format!("✓ applied; the schema has generation {}", applied.generation);
        console.line("")?;
        console.line(console.paint(Tone::Good, &done))?;
    }
    Ok(Exit::Done)
}

/// Reads the schema file of the command. If the default file does not exist and the user removes
/// collections, returns an empty schema. That is safe, because only collections that `--remove`
/// names are removed.
fn asked_schema(path: &Path, remove: &RemoveArgs) -> Result<Schema> {
    if !remove.remove.is_empty() && path == Path::new(DEFAULT_FILE) && !path.exists() {
        return parse_schema(path, "");
    }
    parse_schema(path, &read_schema_text(path)?)
}

pub(super) fn read_schema_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let failed = |error: io::Error| {
        let failure = Failure::file("read the schema file", path, &error);
        match error.kind() {
            io::ErrorKind::NotFound => {
                failure.with_hint("create one with `recto init`, or name another file with --schema")
            }
            io::ErrorKind::InvalidData => failure.with_hint("write the schema as TOML, in UTF-8"),
            _ => failure,
        }
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_SCHEMA_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}

pub(super) fn parse_schema(path: &Path, text: &str) -> Result<Schema> {
    Schema::parse(text).map_err(|errors| {
        let count = errors.errors().len() + errors.omitted();
        let plural = if count == 1 { "an error" } else { "errors" };
        let shown = errors.in_file(path.display().to_string());
        Failure::new(Exit::Refused, format!("the schema has {plural}\n\n{shown}\n"))
    })
}

fn draw_plan(Planned { store, plan }: &Planned, console: &mut Console) -> Result<()> {
    let holds = match plan.generation {
        0 => "has no schema yet".to_owned(),
        generation => format!("has a schema of generation {generation}"),
    };
    console.line(format_args!(
        "{} {holds}",
        console.paint(Tone::Strong, &printable(store))
    ))?;
    if plan.changes.is_empty() && plan.statements.is_empty() && plan.rejected.is_empty() {
        console.line(console.paint(Tone::Good, "✓ nothing to change: the store has this schema"))?;
    }
    section(console, "Changes", &plan.changes, (Tone::Good, "•"))?;
    section(console, "Statements", &plan.statements, (Tone::Plain, ""))?;
    section(console, "Left as they are", &plan.kept, (Tone::Dim, "•"))?;
    if plan.rejected.is_empty() {
        let misfits: Vec<String> = plan.misfits.iter().map(ToString::to_string).collect();
        section(console, "Will be missing", &misfits, (Tone::Warning, "!"))?;
    }
    section(console, "Notes", &plan.notes, (Tone::Dim, "•"))?;
    section(console, "Cannot be done", &plan.rejected, (Tone::Bad, "✗"))
}

/// Prints a heading and lines below it, each after a mark. Prints nothing if there are no lines.
fn section(console: &mut Console, title: &str, lines: &[String], mark: (Tone, &str)) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    console.line("")?;
    console.line(console.paint(Tone::Strong, title))?;
    for text in lines {
        let (tone, mark) = mark;
        let mark = if mark.is_empty() {
            String::new()
        } else {
            format!("{} ", console.paint(tone, mark))
        };
        let indent = if mark.is_empty() { "\n  " } else { "\n    " };
        let indented = printable_lines(text).replace('\n', indent);
        console.line(format_args!("  {mark}{indented}"))?;
    }
    Ok(())
}
