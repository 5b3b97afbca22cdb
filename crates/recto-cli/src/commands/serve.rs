//! `recto serve`: serves the store over HTTP.

use clap::Args;
use recto::{LocalSession, OpenOptions};
use recto_server::{Server, start_logs};

use super::config::ServerArgs;
use super::console_server::{announce, keep_loads_in};
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::opening::{environment, open};
use crate::stop::Stop;
use crate::store::{DEFAULT_STORE, MAKES_A_STORE, not_opened};

const EXAMPLES: &str = "\
Examples:
  recto serve                                    listen on http://127.0.0.1:8080, for this machine only
  recto serve --listen 127.0.0.1:0               listen on a free port, and print it
  recto serve --config /etc/recto/server.toml    use the settings in a file
  recto serve --listen 0.0.0.0:8443 --tokens tokens.toml --tls-certificate cert.pem --tls-key key.pem

  recto serve --read-only                        reject every change; several such servers can share a folder

To serve other machines, the server needs tokens (`recto token create`), and TLS or a proxy with TLS. Each \
setting can also be in the environment (RECTO_SERVE_LISTEN) or in the table [serve] of the file. A flag \
takes precedence over the environment, and the environment over the file. `recto config check` shows the \
settings.
After Ctrl-C or SIGTERM, the server answers the requests in flight, then exits. A second signal ends it at \
once.";

/// Arguments of `recto serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Runs `recto serve`: serves until the process gets a signal to stop.
pub(crate) async fn run(args: &ServeArgs, console: &mut Console) -> Result<Exit> {
    let mut config = args.server.effective()?.config;
    // Check the configuration before opening the store, so that its errors are reported at once.
    Server::check(&config)?;
    let store = args.server.store();
    let address = store.address(DEFAULT_STORE, environment())?;
    let mut options = store.with_parameters(OpenOptions::new())?;
    if config.read_only {
        options = options.read_only().without_upkeep();
    } else {
        keep_loads_in(&address, &mut config);
    }
    let recto = open(&address, options.wait(store.wait()?))
        .await
        .map_err(|error| not_opened(error, MAKES_A_STORE))?;
    allow_open_files();
    start_logs(&config);
    let session = LocalSession::new(recto);
    let server = Server::bind(session.clone(), &config).await?;
    announce(&session, &server);
    drop(session);
    let mut stop = Stop::listen();
    let mode = if config.read_only { ", read-only," } else { "" };
    console.line(format_args!("serving {address}{mode} on {}", server.url()))?;

    console.flush()?;
    server.run(stop.requested()).await?;
    Ok(Exit::Done)
}

/// Raises this process's limit of open files to the maximum, because each connection is an open
/// file. Systems often start programs with a limit of 1,024. If raising fails, the server accepts
/// fewer connections.
#[cfg(unix)]
fn allow_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(not(unix))]
fn allow_open_files() {}
