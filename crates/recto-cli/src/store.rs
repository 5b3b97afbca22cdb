//! Which store a command speaks to: options, environment and file, in this order of precedence.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use recto::{CassandraAddress, ErrorKind, OpenOptions, Session, StoreAddress};

use crate::failure::{Exit, Failure, Result};

/// The store of whoever names none: a folder in the current folder.
pub(crate) const DEFAULT_STORE: &str = "recto.data";
/// Environment variables that start so hold Cassandra's parameters.
const ENVIRONMENT_PREFIX: &str = "RECTO_CASSANDRA_";
/// The largest store file, in bytes.
const MAX_CONFIG_BYTES: u64 = 64 << 10;

/// Where stores are and how their options combine, for `--help`.
pub(crate) const STORES: &str = "\
Stores:
  A store is a folder, or cassandra://host[:port][,host…]/keyspace[?parameter=value&…]
  Without --store: RECTO_STORE, else `store` of the --store-config file, else ./recto.data

  Parameters of Cassandra: username, password, local_datacenter, consistency, replication, tls, tls_ca, \
tls_certificate, tls_key, tls_check_server_name, connect_timeout_ms, request_timeout_ms. Each may stand in the \
address, in the environment (RECTO_CASSANDRA_PASSWORD) or in the --store-config file; the first of these that has \
it wins:
      store = \"cassandra://db1,db2/shop\"
      [cassandra]
      username = \"ada\"
      password = \"…\"
  Other users of a machine can see command lines: keep passwords in the environment or the file.";

/// Options that say which store.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StoreArgs {
    #[arg(
        help = "The store: a folder, or cassandra://host/keyspace [env: RECTO_STORE] [default: recto.data]"
    )]
    #[arg(
        long,
        value_name = "STORE",
        env = "RECTO_STORE",
        hide_env = true,
        help_heading = "Store"
    )]
    pub(crate) store: Option<String>,
    #[arg(help = "A TOML file with the store and Cassandra's parameters [env: RECTO_STORE_CONFIG]")]
    #[arg(
        long,
        value_name = "FILE",
        env = "RECTO_STORE_CONFIG",
        hide_env = true,
        help_heading = "Store"
    )]
    pub(crate) store_config: Option<PathBuf>,
}

/// What a store file holds.
#[derive(Debug, Default)]
struct StoreConfig {
    store: Option<String>,
    cassandra: Vec<(String, String)>,
}

impl StoreArgs {
    /// The address of the store.
    ///
    /// # Errors
    /// The address, a variable or the file is not right. No error holds a value of a parameter that
    /// could be secret.
    pub(crate) fn address(
        &self,
        default: &str,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<StoreAddress> {
        let config = match &self.store_config {
            Some(path) => read_config(path)?,
            None => StoreConfig::default(),
        };
        let text = self
            .store
            .as_deref()
            .or(config.store.as_deref())
            .unwrap_or(default);
        match text.parse()? {
            StoreAddress::Cassandra(given) => {
                let mut address = CassandraAddress::new(given.hosts.clone(), given.keyspace.clone());
                for (name, value) in &config.cassandra {
                    address
                        .set(name, value)
                        .map_err(|error| named(&error, "in the store file"))?;
                }
                for (variable, value) in environment {
                    if let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) {
                        address
                            .set(&name.to_ascii_lowercase(), &value)
                            .map_err(|error| named(&error, &format!("in the environment, {variable}")))?;
                    }
                }
                overlay(&mut address, *given, text);
                Ok(StoreAddress::Cassandra(Box::new(address)))
            }
            embedded => Ok(embedded),
        }
    }

    /// Opens the store.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Session>> {
        let address = self.address(DEFAULT_STORE, environment())?;
        Ok(recto::open(&address, OpenOptions::new()).await?)
    }
}

/// A store that may have to be made first.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) address: StoreAddress,
}

impl Place {
    /// The session of the store, if it is there.
    pub(crate) async fn open(&self) -> Result<Option<Arc<dyn Session>>> {
        match recto::open(&self.address, OpenOptions::new()).await {
            Ok(session) => Ok(Some(session)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The session of the store, which is made if it is not there.
    pub(crate) async fn open_or_create(&self) -> Result<Arc<dyn Session>> {
        Ok(recto::open(&self.address, OpenOptions::new().create()).await?)
    }
}

/// The environment's variables whose names and values are text.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn named(error: &recto::Error, place: &str) -> Failure {
    let hint = error.hint().map(str::to_owned);
    let failure = Failure::new(Exit::Refused, format!("{place}: {error}"));
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// What the address itself says goes before what the environment and the file say.
fn overlay(address: &mut CassandraAddress, given: CassandraAddress, text: &str) {
    fn prefer<T>(slot: &mut Option<T>, given: Option<T>) {
        if given.is_some() {
            *slot = given;
        }
    }
    prefer(&mut address.username, given.username);
    prefer(&mut address.password, given.password);
    prefer(&mut address.tls_ca, given.tls_ca);
    prefer(&mut address.tls_certificate, given.tls_certificate);
    prefer(&mut address.tls_key, given.tls_key);
    prefer(&mut address.local_datacenter, given.local_datacenter);
    prefer(&mut address.consistency, given.consistency);
    prefer(&mut address.replication, given.replication);
    prefer(&mut address.connect_timeout, given.connect_timeout);
    prefer(&mut address.request_timeout, given.request_timeout);
    let says = |parameter: &str| {
        let pairs = text.split_once('?').map_or("", |(_, pairs)| pairs).split('&');
        pairs
            .into_iter()
            .any(|pair| pair.split('=').next() == Some(parameter))
    };
    // A flag that is absent looks like one that is off: only the text tells them apart.
    if says("tls") || given.tls {
        address.tls = given.tls;
    }
    if says("tls_check_server_name") {
        address.tls_check_server_name = given.tls_check_server_name;
    }
}

fn read_config(path: &Path) -> Result<StoreConfig> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| Failure::file("read", path, &error))?;
    file.take(MAX_CONFIG_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::file("read", path, &error))?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(refused(
            path,
            "it is larger than 64 KiB, which no store file needs",
        ));
    }
    parse_config(&text).map_err(|reason| refused(path, &reason))
}

fn refused(path: &Path, reason: &str) -> Failure {
    Failure::new(Exit::Refused, format!("{}: {reason}", path.display())).with_hint(
        "a store file has `store = \"…\"` and a table [cassandra] with parameters; see recto --help",
    )
}

/// Reads a store file. The TOML parser's own rendering would show the line, and with it a password:
/// only its message and the place are told.
fn parse_config(text: &str) -> std::result::Result<StoreConfig, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let place = error.span().map_or(String::new(), |span| {
            let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
            format!("line {line}: ")
        });
        format!("{place}not valid TOML")
    })?;
    let mut config = StoreConfig::default();
    for (key, value) in table {
        match (key.as_str(), value) {
            ("store", toml::Value::String(store)) => config.store = Some(store),
            ("store", _) => return Err("`store` takes text".into()),
            ("cassandra", toml::Value::Table(parameters)) => {
                for (name, value) in parameters {
                    config
                        .cassandra
                        .push((name.clone(), parameter_text(&name, value)?));
                }
            }
            // The server's part of a file that both read.
            ("serve", toml::Value::Table(_)) => {}
            ("cassandra", _) => return Err("`cassandra` is a table: [cassandra]".into()),
            (other, _) => return Err(format!("there is no key `{other}`")),
        }
    }
    Ok(config)
}

fn parameter_text(name: &str, value: toml::Value) -> std::result::Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(flag) => Ok(flag.to_string()),
        _ => Err(format!(
            "cassandra.{name} takes text, a whole number, true or false"
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cassandra(
        store: Option<&str>,
        config: Option<&str>,
        environment: &[(&str, &str)],
    ) -> Result<CassandraAddress> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.toml");
        let store_config = config.map(|text| {
            std::fs::write(&path, text).unwrap();
            path.clone()
        });
        let args = StoreArgs {
            store: store.map(str::to_owned),
            store_config,
        };
        let environment = environment
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        match args.address(DEFAULT_STORE, environment)? {
            StoreAddress::Cassandra(address) => Ok(*address),
            other => panic!("{other:?}"),
        }
    }

    const CONFIG: &str = "store = \"cassandra://db1/shop\"\n[cassandra]\nusername = \"file\"\npassword = \"file\"\n\
                          local_datacenter = \"file\"\ntls = true\nrequest_timeout_ms = 7000\n";

    #[test]
    fn the_address_goes_before_the_environment_and_the_environment_before_the_file() {
        let environment = [
            ("RECTO_CASSANDRA_USERNAME", "environment"),
            ("RECTO_CASSANDRA_PASSWORD", "environment"),
            ("HOME", "/"),
        ];
        let address = cassandra(
            Some("cassandra://url@db9/ks?tls=false"),
            Some(CONFIG),
            &environment,
        )
        .unwrap();
        assert_eq!(address.hosts, ["db9:9042"]);
        assert_eq!(address.username.as_deref(), Some("url"));
        assert_eq!(address.password.as_ref().unwrap().reveal(), "environment");
        assert_eq!(address.local_datacenter.as_deref(), Some("file"));
        assert_eq!(address.request_timeout.unwrap().as_millis(), 7_000);
        assert!(!address.tls);
        assert!(cassandra(None, Some(CONFIG), &[]).unwrap().tls);
    }

    #[test]
    fn without_any_the_store_is_a_folder_here() {
        let address = StoreArgs::default()
            .address(DEFAULT_STORE, std::iter::empty())
            .unwrap();
        assert_eq!(address, StoreAddress::Embedded("recto.data".into()));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_secret() {
        let store = Some("cassandra://db1/shop");
        for (config, environment) in [
            (Some("[cassandra]\npassword = hunter2\n"), &[][..]),
            (Some("[cassandra]\npassword = [\"hunter2\"]\n"), &[]),
            (Some("password = \"hunter2\"\n"), &[]),
            (Some("cassandra = \"hunter2\"\n"), &[]),
            (None, &[("RECTO_CASSANDRA_PASWORD", "hunter2")]),
            (Some("[cassandra]\npasword = \"hunter2\"\n"), &[]),
        ] {
            let failure = cassandra(store, config, environment).unwrap_err();
            let shown = format!("{failure:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
            assert_eq!(failure.exit, Exit::Refused, "{shown}");
        }
    }

    #[test]
    fn a_store_file_that_is_not_there_or_too_large_is_refused() {
        let missing = StoreArgs {
            store: None,
            store_config: Some("no/such/file.toml".into()),
        };
        assert_eq!(
            missing
                .address(DEFAULT_STORE, std::iter::empty())
                .unwrap_err()
                .exit,
            Exit::NotFound
        );
        let large = format!("store = \"{}\"", "x".repeat(70_000));
        assert_eq!(
            cassandra(None, Some(&large), &[]).unwrap_err().exit,
            Exit::Refused
        );
    }
}
