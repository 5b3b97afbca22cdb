//! Web console of a store, served to this machine only.

use recto::{LocalSession, StoreAddress};
use recto_server::auth::TokenError;
use recto_server::{Config, ServeError, Server};

use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::stop::Stop;

/// Serves the web console of a store to this machine until the process gets a signal to stop.
/// Listens on the default port, or on a free port if the default port is in use.
pub(crate) async fn serve_console(
    session: LocalSession,
    address: &StoreAddress,
    console: &mut Console,
) -> Result<Exit> {
    let mut config = Config::default();
    keep_loads_in(address, &mut config);
    let mut listen = config.listen;
    let (server, remark) = match Server::bind(session.clone(), &config).await {
        Err(ServeError::Listen { .. }) => {
            let remark = format!(" (port {} is taken)", listen.port());
            listen.set_port(0);
            let config = Config { listen, ..config };
            (Server::bind(session.clone(), &config).await?, remark)
        }
        bound => (bound?, String::new()),
    };
    announce(&session, &server);
    drop(session);
    let mut stop = Stop::listen();
    let url = server.url();
    console.line("")?;
    console.line(console.paint(Tone::Strong, &format!("The console: {url}{remark}")))?;
    console.line(console.paint(
        Tone::Dim,
        &format!("Ctrl-C stops the server. While it runs, use --store {url} in other commands"),
    ))?;
    console.flush()?;
    server.run(stop.requested()).await?;
    Ok(Exit::Done)
}

/// Writes the server's address into the store's lock file. Processes that cannot open the locked
/// store show the address in their error.
pub(super) fn announce(session: &LocalSession, server: &Server) {
    // Ignore an error, because the address only improves an error message of other processes.
    let _ = session.announce(&server.local_url());
}

/// Sets the folder for uploaded files to a folder inside an embedded store, unless the
/// configuration names a folder. The disk of the store needs space for the loaded rows anyway.
pub(super) fn keep_loads_in(store: &StoreAddress, config: &mut Config) {
    if let (StoreAddress::Embedded(folder), None) = (store, &config.load_folder) {
        config.load_folder = Some(folder.join("loads"));
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let exit = match &error {
            ServeError::Config(_) | ServeError::Certificate { .. } => Exit::Refused,
            ServeError::Tokens(error) => exit_of(error),
            _ => Exit::Failed,
        };
        let failure = Self::new(exit, error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// Returns the exit code for an error about access tokens.
pub(crate) fn exit_of(error: &TokenError) -> Exit {
    match error {
        TokenError::NotFound { .. } => Exit::NotFound,
        TokenError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Exit::NotFound,
        TokenError::File { .. } => Exit::Failed,
        _ => Exit::Refused,
    }
}
