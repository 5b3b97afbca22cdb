//! Opening of a store whose address is known.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use recto::{ErrorKind, LocalSession, OpenOptions, Recto, Session, StoreAddress, StoreHolder, store_holder};

use crate::failure::Result;
use crate::text::printable;

/// Prefix of the environment variables with parameters of Cassandra.
pub(crate) const ENVIRONMENT_PREFIX: &str = "RECTO_CASSANDRA_";
/// Maximum time that a process spends at its end to unregister as a writer.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Cassandra store that this process opened for writing. Other processes know this process as a writer of the store.
static OPENED: OnceLock<Recto> = OnceLock::new();

/// Returns what to do about an embedded store that another process has open.
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

/// Returns a session of the store at an address. If the address is a server, the session sends its requests to the
/// server.
pub(crate) async fn session(address: &StoreAddress, options: OpenOptions) -> recto::Result<Arc<dyn Session>> {
    match address {
        #[cfg(feature = "client")]
        StoreAddress::Http(address) => Ok(Arc::new(recto_remote::HttpSession::new(address)?)),
        address => Ok(Arc::new(LocalSession::new(open(address, options).await?))),
    }
}

/// Opens a store in this process. Reports on standard error that it waits for the store.
pub(crate) async fn open(address: &StoreAddress, options: OpenOptions) -> recto::Result<Recto> {
    let writes = !options.read_only;
    let options = with_environment(options);
    let (at_once, seconds) = (options.clone().wait(Duration::ZERO), options.wait.as_secs());
    let opened = match Recto::open_with(address, at_once).await {
        Err(error) if seconds > 0 && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
            // Ignore an error, because a failed standard error cannot report it.
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
        // Keep the store for `leave`, because a process that can write to a Cassandra store
        // registers itself there. A command opens at most one store for writing.
        let _ = OPENED.set(recto.clone());
    }
    opened.map_err(|error| match address {
        StoreAddress::Embedded(folder) if error.kind() == ErrorKind::Unavailable => {
            error.with_hint(is_held(folder))
        }
        _ => error,
    })
}

/// Adds the Cassandra parameters of the environment, for keyspaces with attached tables. They take precedence over
/// those of a store file.
fn with_environment(options: OpenOptions) -> OpenOptions {
    environment().fold(options, |options, (variable, value)| {
        match variable.strip_prefix(ENVIRONMENT_PREFIX) {
            Some(name) => options.cassandra_parameter(name.to_ascii_lowercase(), value),
            None => options,
        }
    })
}

/// Reports to other processes that this one no longer writes to the store that it opened. Otherwise they would find
/// it dead only after half a minute, and a process that adds a view would have to wait for that.
pub(crate) async fn leave() {
    if let Some(recto) = OPENED.get() {
        // Ignore a timeout: other processes then find this process dead after half a minute.
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, recto.close()).await;
    }
}

/// Store that may not exist yet.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) address: StoreAddress,
    /// Options of every opening.
    pub(crate) options: OpenOptions,
    pub(crate) wait: Duration,
}

impl Place {
    /// Opens the store and returns its session; `None` if the store does not exist.
    pub(crate) async fn open(&self) -> Result<Option<Arc<dyn Session>>> {
        self.open_with(self.options.clone()).await
    }

    /// Opens the store for reading, while other processes may read it too. Returns `None` if the store does not
    /// exist.
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

    /// Opens the store, and creates it if it does not exist.
    pub(crate) async fn open_or_create(&self) -> Result<Arc<dyn Session>> {
        Ok(session(&self.address, self.options.clone().create().wait(self.wait)).await?)
    }
}

/// Returns the environment variables whose names and values are text.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
