//! `recto serve`: the store over HTTP.

use std::net::SocketAddr;

use clap::Args;
use recto::{LocalSession, OpenOptions, Recto};
use recto_server::{Config, ServeError, Server};

use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::stop::Stop;
use crate::store::{DEFAULT_STORE, StoreArgs, environment};

const EXAMPLES: &str = "\
Examples:
  recto serve                                  on http://127.0.0.1:8080, for this machine only
  recto serve --listen 127.0.0.1:0             on any free port, which is printed";

/// Arguments of `recto serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The address and port to listen on
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Serves until it is told to stop.
pub(crate) async fn run(args: &ServeArgs, console: &mut Console) -> Result<Exit> {
    let mut config = Config::default();
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    let address = args.store.address(DEFAULT_STORE, environment())?;
    let recto = Recto::open_with(&address, OpenOptions::new()).await?;
    let server = Server::bind(LocalSession::new(recto), &config).await?;
    let mut stop = Stop::listen();
    console.line(format_args!("serving on {}", server.url()))?;
    console.flush()?;
    server.run(stop.requested()).await?;
    Ok(Exit::Done)
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}
