//! Arguments of `recto demo`.

use std::path::PathBuf;

use clap::Args;
use recto::OpenOptions;

use super::demo::{DemoRequest, FOLDER};
use crate::failure::Result;
use crate::opening::{Place, environment};
use crate::store::{StoreArgs, wait_seconds};

const EXAMPLES: &str = "\
Examples:
  recto demo                                     create ./recto-demo; remove that folder to undo it
  recto demo --store cassandra://db1/flights     use Cassandra, and create the keyspace

The flights are part of this program: nothing is downloaded. An interrupted demo continues where it \
stopped. A complete demo only shows its pages. On a terminal, and with --serve, the demo then serves the \
console: it prints the address, and Ctrl-C stops it.";

/// Arguments of `recto demo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Serve the console at the end, as on a terminal
    #[arg(long)]
    pub(crate) serve: bool,
    // Read no store from the environment, so that the demo writes only where the user says.
    #[arg(help = "Store: a folder, or cassandra://host/keyspace [default: recto-demo]")]
    #[arg(long, value_name = "STORE", help_heading = "Store")]
    pub(crate) store: Option<String>,
    /// TOML file with the store and the parameters of Cassandra
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub(crate) store_config: Option<PathBuf>,
    /// Maximum wait for a store that another process has open or that does not run yet: 0 to 86400 [default:
    /// 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Store", value_parser = wait_seconds())]
    pub(crate) wait: Option<u32>,
}

impl DemoArgs {
    /// Converts the arguments to the options of the demo.
    ///
    /// # Errors
    /// The errors of [`StoreArgs::address`].
    pub(crate) fn request(&self) -> Result<DemoRequest> {
        let store = StoreArgs {
            store: self.store.clone(),
            store_config: self.store_config.clone(),
            wait: self.wait,
        };
        Ok(DemoRequest {
            place: Place {
                options: OpenOptions::new(),
                address: store.address(FOLDER, environment())?,
                wait: store.wait()?,
            },
            quiet: self.quiet,
            serve: self.serve,
        })
    }
}
