//! Opening of a store by its address.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use recto::{ErrorKind, LocalSession, OpenOptions, Recto, Session, StoreAddress, StoreHolder, store_holder};

use crate::failure::Result;
use crate::text::printable;

/// Prefix of the environment variables that set parameters of a connection to Cassandra.
pub(crate) const ENVIRONMENT_PREFIX: &str = "RECTO_CASSANDRA_";
/// Maximum time that an ending process waits until it is no longer registered as a writer of a
/// Cassandra store.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Cassandra store that this process opened for writing. [`leave`] removes the process from the
/// store's list of writers.
static OPENED: OnceLock<Recto> = OnceLock::new();

/// Returns the hint for an embedded store that another process has open.
fn is_held(folder: &Path) -> String {
    let first = match store_holder(folder) {
        Some(StoreHolder { url: Some(url), .. }) => {
            format!("send the command to that server (--store {url}), or stop the server")
        }
        Some(_) => {
            "wait until that process closes the store (--wait SECONDS), or stop the process".to_owned()
        }
        None => {
            "wait until the store is closed (--wait SECONDS), or stop the process that has it open".to_owned()
        }
    };
    format!(
        "{first}; one process may write an embedded store, or several may read it: to write from several, run `recto serve`"
    )
}

/// Opens the store at an address, and returns a session of the store. For the address of a server,
/// the session sends requests to the server.
pub(crate) async fn session(address: &StoreAddress, options: OpenOptions) -> recto::Result<Arc<dyn Session>> {
    match address {
        #[cfg(feature = "client")]
        StoreAddress::Http(address) => Ok(Arc::new(recto_remote::HttpSession::new(address)?)),
        address => Ok(Arc::new(LocalSession::new(open(address, options).await?))),
    }
}

/// Opens a store in this process. If it must wait for the store, prints a message on standard error.
pub(crate) async fn open(address: &StoreAddress, options: OpenOptions) -> recto::Result<Recto> {
    let writes = !options.read_only;
    let options = with_environment(options);
    let (at_once, seconds) = (options.clone().wait(Duration::ZERO), options.wait.as_secs());
    let opened = match Recto::open_with(address, at_once).await {
        Err(error) if seconds > 0 && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
            // Ignore an error, because there is no other stream to report it on.
            let _ = writeln!(
                std::io::stderr(),
                "waiting up to {seconds} s for the store: {}",
                printable(error.message())
            );
            Recto::open_with(address, options).await
        }
        opened => opened,
    };
    if let (Ok(recto), StoreAddress::Cassandra(_), true) = (&opened, address, writes) {
        // Keep the store for `leave`, because a writer of a Cassandra store is registered in the
        // store. A command opens at most one store for writing.
        let _ = OPENED.set(recto.clone());
    }
    opened.map_err(|error| match address {
        StoreAddress::Embedded(folder) if error.kind() == ErrorKind::Unavailable => {
            error.with_hint(is_held(folder))
        }
        _ => error,
    })
}

/// Adds parameters of Cassandra connections from the environment, for keyspaces with attached
/// tables. They take precedence over the parameters of a store file.
fn with_environment(options: OpenOptions) -> OpenOptions {
    environment().fold(options, |options, (variable, value)| {
        match variable.strip_prefix(ENVIRONMENT_PREFIX) {
            Some(name) => options.cassandra_parameter(name.to_ascii_lowercase(), value),
            None => options,
        }
    })
}

/// Unregisters this process as a writer of the Cassandra store that it opened. Otherwise other
/// processes would count it as a writer for half a minute more, and adding a view would wait for
/// it.
pub(crate) async fn leave() {
    if let Some(recto) = OPENED.get() {
        // Ignore a timeout: other processes then notice after half a minute that this process has
        // ended.
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, recto.close()).await;
    }
}

/// Address of a store that may not exist yet, and how to open it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) address: StoreAddress,
    /// Options to open the store with, whether for reading or for writing.
    pub(crate) options: OpenOptions,
    pub(crate) wait: Duration,
}

impl Place {
    /// Opens the store for writing. Returns its session, or `None` if the store does not exist.
    pub(crate) async fn open(&self) -> Result<Option<Arc<dyn Session>>> {
        self.open_with(self.options.clone()).await
    }

    /// Opens the store for reading, so that other processes can read it at the same time. Returns
    /// its session, or `None` if the store does not exist.
    pub(crate) async fn open_to_read(&self) -> Result<Option<Arc<dyn Session>>> {
        self.open_with(self.options.clone().read_only()).await
    }

    async fn open_with(&self, options: OpenOptions) -> Result<Option<Arc<dyn Session>>> {
        match session(&self.address, options.wait(self.wait)).await {
            Ok(session) => Ok(Some(session)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the store for writing, and creates it if it does not exist.
    pub(crate) async fn open_or_create(&self) -> Result<Arc<dyn Session>> {
        Ok(session(&self.address, self.options.clone().create().wait(self.wait)).await?)
    }
}

/// Returns the environment variables whose names and values are text.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
