//! The commands there are, with their help.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};

use crate::commands::{
    completions, config, cursor_keys, demo, describe, explain, load, page, records, scan, schema, serve,
    token, upkeep,
};
use crate::failure::EXIT_CODES;
use crate::store::STORES;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// What `recto --help` says after the commands.
const AFTER_HELP: &str = "\
Examples:
  recto demo                                     real data in an embedded store, and pages of it
  recto init && recto apply                      a first schema, and the store that holds it
  recto load posts posts.csv                     a file into a collection
  recto page posts --filter 'user_id = \"…\"'      a page; n and p turn it

`recto help COMMAND` says more of each.";

/// Any page of a large, sorted, filtered collection, forwards and backwards: on an embedded store and on
/// Apache Cassandra.
#[derive(Debug, Parser)]
#[command(name = "recto", version, styles = STYLES, max_term_width = 110)]
#[command(after_help = AFTER_HELP, after_long_help = format!("{AFTER_HELP}\n\n{STORES}\n\n{EXIT_CODES}"))]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes an embedded store with 336,776 real flights and shows pages of it
    Demo(demo::DemoArgs),
    /// Writes a commented schema file to start from
    Init(schema::InitArgs),
    /// Shows what applying the schema file would change in the store
    Plan(schema::PlanArgs),
    /// Makes the store hold the schema file's collections
    Apply(schema::ApplyArgs),
    /// Shows what the store holds: its collections, fields and arrangements
    Describe(describe::DescribeArgs),
    /// Loads a CSV or NDJSON file into collections
    Load(load::LoadArgs),
    /// Shows a page of a collection, and turns pages
    Page(page::PageArgs),
    /// Shows how a page is found and what it costs
    Explain(explain::ExplainArgs),
    /// Prints every record of a collection as NDJSON
    Scan(scan::ScanArgs),
    /// Shows one record
    Get(records::GetArgs),
    /// Puts records: new ones, or whole ones in place of those with the same key
    Put(records::PutArgs),
    /// Deletes one record
    Delete(records::DeleteArgs),
    /// Serves the store over HTTP
    Serve(serve::ServeArgs),
    /// Makes, lists and revokes the tokens that a server asks for
    Token(token::TokenArgs),
    /// Shows and checks the configuration of a server
    Config(config::ConfigArgs),
    /// Copies an embedded store, while it is open, to a new folder
    Backup(upkeep::BackupArgs),
    /// Gives unused space of an embedded store back
    Compact(upkeep::CompactArgs),
    /// Checks every row of an embedded store
    Check(upkeep::CheckArgs),
    /// Lists or rotates the keys that page tokens are sealed with
    CursorKeys(cursor_keys::CursorKeysArgs),
    /// Prints a script that completes this program's arguments in a shell
    Completions(completions::CompletionsArgs),
}
