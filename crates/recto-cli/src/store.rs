//! Selection of the store by command-line options, environment variables and a file, in this order of
//! precedence.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use recto::{CassandraAddress, ErrorKind, HttpAddress, OpenOptions, Recto, Session, StoreAddress};

use crate::failure::{Exit, Failure, Result};
use crate::opening::{ENVIRONMENT_PREFIX, environment, open, session};

/// Default store: a subfolder of the current folder.
pub(crate) const DEFAULT_STORE: &str = "recto.data";
/// Prefix of the environment variables with parameters of a connection to a server.
const HTTP_PREFIX: &str = "RECTO_HTTP_";
/// Environment variable with the access token for a server.
const TOKEN_VARIABLE: &str = "RECTO_TOKEN";
/// Maximum value of `--wait`, the wait for a store, in seconds: a day.
const MAX_WAIT_SECONDS: i64 = 86_400;
/// Maximum number of attempts to open an embedded store that another command of the same shell pipe
/// has open. With waits of `PIPE_WAIT`, the attempts take 5 seconds.
const MAX_PIPE_ATTEMPTS: u32 = 250;
/// Time between two attempts to open a store that another command of the same shell pipe has open.
const PIPE_WAIT: Duration = Duration::from_millis(20);
/// Maximum size of a store file (`--store-config`), in bytes.
const MAX_CONFIG_BYTES: u64 = 64 << 10;
/// Description of stores and of the precedence of their options, for `--help`.
pub(crate) const STORES: &str = "\
Stores:
  A store is a folder, or cassandra://host[:port][,host…]/keyspace[?parameter=value&…], or a running `recto \
serve`: http[s]://host[:port][?parameter=value&…]
  Without --store, Recto uses RECTO_STORE, then `store` of the --store-config file, then ./recto.data
  Write these options before or after the command.
  An embedded store can have several readers or one writer at a time; --wait waits until it is free.

  Parameters of Cassandra: username, password, local_datacenter, consistency, replication, tls, tls_ca, \
tls_certificate, tls_key, tls_check_server_name, connect_timeout_ms, request_timeout_ms, \
serial_consistency, retries, pool_size, in_flight, mutation_bytes, batch_bytes. Set them in the address, in \
the environment (RECTO_CASSANDRA_PASSWORD) or in the --store-config file. The address takes precedence over \
the environment, and the environment over the file:
      store = \"cassandra://db1,db2/shop\"
      [cassandra]
      username = \"ada\"
      password = \"…\"
  Other users of a machine can see command lines: keep passwords in the environment or the file.

  Parameters of a server: token_file, tls_ca, connect_timeout_ms, request_timeout_ms, in the same places \
(RECTO_HTTP_TLS_CA, a table [http]). Set the token in RECTO_TOKEN, in the file that token_file names, or as \
`token` in [http]. An address cannot have it.";

/// Options that select the store.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StoreArgs {
    #[arg(
        help = "Store: a folder, cassandra://host/keyspace, or http://host of a running server [env: \
                RECTO_STORE] [default: recto.data]"
    )]
    #[arg(
        long,
        value_name = "STORE",
        env = "RECTO_STORE",
        hide_env = true,
        help_heading = "Store"
    )]
    pub(crate) store: Option<String>,
    #[arg(help = "TOML file with the store and its parameters [env: RECTO_STORE_CONFIG]")]
    #[arg(
        long,
        value_name = "FILE",
        env = "RECTO_STORE_CONFIG",
        hide_env = true,
        help_heading = "Store"
    )]
    pub(crate) store_config: Option<PathBuf>,
    #[arg(
        help = "Maximum wait for a store that another process has open, or that does not run yet: 0 to 86400 \
                [env: RECTO_WAIT] [default: 0]"
    )]
    #[arg(
        long,
        value_name = "SECONDS",
        env = "RECTO_WAIT",
        hide_env = true,
        help_heading = "Store",
        value_parser = wait_seconds()
    )]
    pub(crate) wait: Option<u32>,
}

/// Returns clap's parser of `--wait`: whole seconds, at most a day.
pub(crate) fn wait_seconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(..=MAX_WAIT_SECONDS)
}

/// Hint for commands on collections if the store does not exist.
pub(crate) const MAKES_A_STORE: &str =
    "create a store with `recto apply --schema FILE`, or one with example data with `recto demo`";

/// Content of a store file (`--store-config`).
#[derive(Debug, Default)]
struct StoreConfig {
    store: Option<String>,
    wait_seconds: Option<u32>,
    cassandra: Vec<(String, String)>,
    http: Vec<(String, String)>,
}

impl StoreArgs {
    /// Ids of the store options in clap, the parser of the command line.
    pub(crate) const IDS: [&str; 3] = ["store", "store_config", "wait"];

    /// Returns the address of the store, from the options, the environment or the store file.
    /// Without all of them, the store is `default`.
    ///
    /// # Errors
    /// The address, a variable or the file is invalid. No error contains the value of a parameter
    /// that may be secret.
    pub(crate) fn address(
        &self,
        default: &str,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<StoreAddress> {
        let config = self.config()?;
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
            StoreAddress::Http(given) => Ok(StoreAddress::Http(Box::new(server(
                *given,
                &config.http,
                environment,
            )?))),
            embedded => Ok(embedded),
        }
    }

    fn config(&self) -> Result<StoreConfig> {
        self.store_config
            .as_deref()
            .map_or_else(|| Ok(StoreConfig::default()), read_config)
    }

    /// Returns the maximum time to wait until the store can be opened, from `--wait` or the store
    /// file.
    pub(crate) fn wait(&self) -> Result<Duration> {
        let seconds = match self.wait {
            Some(seconds) => seconds,
            None => self.config()?.wait_seconds.unwrap_or(0),
        };
        Ok(Duration::from_secs(seconds.into()))
    }

    /// Opens the store for writing.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Session>> {
        self.open_with(OpenOptions::new(), MAKES_A_STORE).await
    }

    /// Opens the store for reading, so that other processes can read it at the same time.
    pub(crate) async fn open_to_read(&self) -> Result<Arc<dyn Session>> {
        self.open_with(OpenOptions::new().read_only(), MAKES_A_STORE)
            .await
    }

    /// Opens the store in this process, for operations that servers do not offer. Rejects the
    /// address of a server.
    pub(crate) async fn open_itself(&self, options: OpenOptions) -> Result<Recto> {
        let address = self.address(DEFAULT_STORE, environment())?;
        if matches!(address, StoreAddress::Http(_)) {
            return Err(Failure::new(
                Exit::Refused,
                "this command needs direct access to the store, not a server",
            )
            .with_hint(
                "name the folder or cassandra://… on a machine that can access it; stop the server of a \
                 folder first",
            ));
        }
        let options = self.with_parameters(options)?;
        open(&address, options.wait(self.wait()?))
            .await
            .map_err(|error| not_opened(error, MAKES_A_STORE))
    }

    /// Adds parameters of Cassandra connections from the store file, for keyspaces with attached
    /// tables.
    pub(crate) fn with_parameters(&self, options: OpenOptions) -> Result<OpenOptions> {
        let parameters = self.config()?.cassandra.into_iter();
        Ok(parameters.fold(options, |options, (name, value)| {
            options.cassandra_parameter(name, value)
        }))
    }

    /// Opens the store for a command that reads from another command through a pipe. Retries while
    /// the other command has an embedded store open.
    pub(crate) async fn open_in_pipe(&self, options: OpenOptions, hint: &str) -> Result<Arc<dyn Session>> {
        let address = self.address(DEFAULT_STORE, environment())?;
        if !matches!(address, StoreAddress::Embedded(_)) {
            return self.open_with(options, hint).await;
        }
        for _ in 0..MAX_PIPE_ATTEMPTS {
            let options = self.with_parameters(options.clone())?;
            match session(&address, options).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tokio::time::sleep(PIPE_WAIT).await;
                }
                opened => return opened.map_err(|error| not_opened(error, hint)),
            }
        }
        self.open_with(options, hint).await
    }

    /// Opens the store with the given options. If the store does not exist, the failure has `hint`.
    pub(crate) async fn open_with(&self, options: OpenOptions, hint: &str) -> Result<Arc<dyn Session>> {
        let address = self.address(DEFAULT_STORE, environment())?;
        let options = self.with_parameters(options)?;
        session(&address, options.wait(self.wait()?))
            .await
            .map_err(|error| not_opened(error, hint))
    }
}

/// Converts the error of opening a store. If the store does not exist, the failure has `hint`.
pub(crate) fn not_opened(error: recto::Error, hint: &str) -> Failure {
    let is_absent = error.kind() == ErrorKind::NotFound;
    let failure = Failure::from(error);
    if is_absent {
        failure.with_hint(hint)
    } else {
        failure
    }
}

/// Adds parameters from the store file and the environment to the address of a server.
fn server(
    given: HttpAddress,
    config: &[(String, String)],
    environment: impl Iterator<Item = (String, String)>,
) -> Result<HttpAddress> {
    let mut address = HttpAddress::new(given.tls, given.host, given.port);
    for (name, value) in config {
        address
            .set(name, value)
            .map_err(|error| named(&error, "in the store file"))?;
    }
    let mut token = None;
    for (variable, value) in environment {
        if variable == TOKEN_VARIABLE {
            token = Some(value);
        } else if let Some(name) = variable.strip_prefix(HTTP_PREFIX) {
            address
                .set(&name.to_ascii_lowercase(), &value)
                .map_err(|error| named(&error, &format!("in the environment, {variable}")))?;
        }
    }
    if let Some(token) = token {
        address.set("token", &token)?;
    }
    if given.token_file.is_some() {
        (address.token, address.token_file) = (None, given.token_file);
    }
    address.tls_ca = given.tls_ca.or(address.tls_ca);
    address.connect_timeout = given.connect_timeout.or(address.connect_timeout);
    address.request_timeout = given.request_timeout.or(address.request_timeout);
    Ok(address)
}

fn named(error: &recto::Error, place: &str) -> Failure {
    let hint = error.hint().map(str::to_owned);
    let failure = Failure::new(Exit::Refused, format!("{place}: {}", error.message()));
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Applies the parameters in the address's text to `address`. They take precedence over parameters
/// from the environment and the store file.
fn overlay(address: &mut CassandraAddress, given: CassandraAddress, text: &str) {
    fn prefer<T>(slot: &mut Option<T>, given: Option<T>) {
        if given.is_some() {
            *slot = given;
        }
    }
    // Name every field, so that the compiler reports a new field that is not handled here.
    let CassandraAddress {
        hosts: _,
        keyspace: _,
        username,
        password,
        tls,
        tls_ca,
        tls_check_server_name,
        tls_certificate,
        tls_key,
        local_datacenter,
        consistency,
        serial_consistency,
        replication,
        connect_timeout,
        request_timeout,
        retries,
        pool_size,
        in_flight,
        mutation_bytes,
        batch_bytes,
    } = given;
    prefer(&mut address.username, username);
    prefer(&mut address.password, password);
    prefer(&mut address.tls_ca, tls_ca);
    prefer(&mut address.tls_certificate, tls_certificate);
    prefer(&mut address.tls_key, tls_key);
    prefer(&mut address.local_datacenter, local_datacenter);
    prefer(&mut address.consistency, consistency);
    prefer(&mut address.serial_consistency, serial_consistency);
    prefer(&mut address.replication, replication);
    prefer(&mut address.connect_timeout, connect_timeout);
    prefer(&mut address.request_timeout, request_timeout);
    prefer(&mut address.retries, retries);
    prefer(&mut address.pool_size, pool_size);
    prefer(&mut address.in_flight, in_flight);
    prefer(&mut address.mutation_bytes, mutation_bytes);
    prefer(&mut address.batch_bytes, batch_bytes);
    let says = |parameter: &str| {
        let pairs = text.split_once('?').map_or("", |(_, pairs)| pairs).split('&');
        pairs
            .into_iter()
            .any(|pair| pair.split('=').next() == Some(parameter))
    };
    // The parsed address does not show whether a flag was absent or false. So search the text for
    // the flag's name.
    if says("tls") || tls {
        address.tls = tls;
    }
    if says("tls_check_server_name") {
        address.tls_check_server_name = tls_check_server_name;
    }
}

/// Reads a text file. Returns `None` if the file is longer than `most_bytes`.
pub(crate) fn read_text(path: &Path, most_bytes: u64) -> Result<Option<String>> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| Failure::file("read", path, &error))?;
    file.take(most_bytes + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::file("read", path, &error))?;
    Ok((text.len() as u64 <= most_bytes).then_some(text))
}

fn read_config(path: &Path) -> Result<StoreConfig> {
    let Some(text) = read_text(path, MAX_CONFIG_BYTES)? else {
        return Err(refused(path, "the file is larger than 64 KiB"));
    };
    parse_config(&text).map_err(|reason| refused(path, &reason))
}

fn refused(path: &Path, reason: &str) -> Failure {
    Failure::new(Exit::Refused, format!("{}: {reason}", path.display())).with_hint(
        "write `store = \"…\"`, `wait_seconds = …` and a table [cassandra] or [http] with parameters; see \
         recto --help",
    )
}

/// Parses a store file. An error names only the line number, because the TOML parser's error would
/// contain the line, which may have a password.
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
            ("wait_seconds", toml::Value::Integer(seconds @ 0..=MAX_WAIT_SECONDS)) => {
                config.wait_seconds = u32::try_from(seconds).ok();
            }
            ("wait_seconds", _) => {
                return Err(format!(
                    "`wait_seconds` takes a whole number, at most {MAX_WAIT_SECONDS}"
                ));
            }
            ("cassandra", toml::Value::Table(table)) => config.cassandra = parameters("cassandra", table)?,
            ("http", toml::Value::Table(table)) => config.http = parameters("http", table)?,
            // Skip `[serve]`: these settings of `recto serve` are in the same file.
            ("serve", toml::Value::Table(_)) => {}
            (kind @ ("cassandra" | "http"), _) => return Err(format!("`{kind}` is a table: [{kind}]")),
            (other, _) => return Err(format!("there is no key `{other}`")),
        }
    }
    Ok(config)
}

/// Returns the parameters in the table `[cassandra]` or `[http]` of a store file, each value as text.
fn parameters(kind: &str, table: toml::Table) -> std::result::Result<Vec<(String, String)>, String> {
    let text = |(name, value): (String, toml::Value)| match value {
        toml::Value::String(text) => Ok((name, text)),
        toml::Value::Integer(number) => Ok((name, number.to_string())),
        toml::Value::Boolean(flag) => Ok((name, flag.to_string())),
        _ => Err(format!("{kind}.{name} takes text, a whole number, true or false")),
    };
    table.into_iter().map(text).collect()
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
            wait: None,
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
    fn prefers_address_over_environment_over_file() {
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
    fn every_parameter_is_heard_in_each_of_the_three_places() {
        let parameters = [
            ("username", "ada", "file"),
            ("password", "secret", "file"),
            ("tls", "true", "false"),
            ("tls_ca", "ca.pem", "file"),
            ("tls_check_server_name", "false", "true"),
            ("tls_certificate", "chain.pem", "file"),
            ("tls_key", "key.pem", "file"),
            ("local_datacenter", "dc2", "file"),
            ("consistency", "quorum", "one"),
            ("replication", "dc1:2", "1"),
            ("connect_timeout_ms", "7", "1"),
            ("request_timeout_ms", "8", "1"),
            ("serial_consistency", "serial", "local_serial"),
            ("retries", "3", "1"),
            ("pool_size", "4", "1"),
            ("in_flight", "5", "1"),
            ("mutation_bytes", "70000", "1"),
            ("batch_bytes", "80000", "1"),
        ];
        for (name, value, other) in parameters {
            let url = format!("cassandra://db1/shop?{name}={value}");
            let StoreAddress::Cassandra(wanted) = url.parse().unwrap() else {
                panic!("{url}");
            };
            let variable = format!("{ENVIRONMENT_PREFIX}{}", name.to_ascii_uppercase());
            let file = |value: &str| format!("[cassandra]\n{name} = \"{value}\"\n");
            let heard = |url: &str, file: &str, environment: &[(&str, &str)]| {
                cassandra(Some(url), Some(file), environment).unwrap()
            };
            let bare = "cassandra://db1/shop";
            assert_eq!(heard(&url, &file(other), &[(&variable, other)]), *wanted, "{url}");
            assert_eq!(
                heard(bare, &file(other), &[(&variable, value)]),
                *wanted,
                "{variable}"
            );
            assert_eq!(heard(bare, &file(value), &[]), *wanted, "{name} in the file");
        }
    }

    fn http(store: &str, config: Option<&str>, environment: &[(&str, &str)]) -> Result<HttpAddress> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.toml");
        let store_config = config.map(|text| {
            std::fs::write(&path, text).unwrap();
            path.clone()
        });
        let args = StoreArgs {
            store: Some(store.to_owned()),
            store_config,
            wait: None,
        };
        let environment = environment.iter();
        let environment = environment.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        match args.address(DEFAULT_STORE, environment)? {
            StoreAddress::Http(address) => Ok(*address),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_servers_token_stands_in_the_environment_or_in_files() {
        let config = "[http]\ntoken = \"file\"\nrequest_timeout_ms = 7000\ntls_ca = \"ca.pem\"\n";
        let shown = |address: &HttpAddress| address.token.as_ref().map(|token| token.reveal().to_owned());
        let address = http("https://db", Some(config), &[]).unwrap();
        assert_eq!(shown(&address).as_deref(), Some("file"));
        assert_eq!(address.request_timeout.unwrap().as_millis(), 7_000);
        let environment = [("RECTO_TOKEN", "environment"), ("RECTO_HTTP_TLS_CA", "other.pem")];
        let address = http("https://db?request_timeout_ms=5", Some(config), &environment).unwrap();
        assert_eq!(shown(&address).as_deref(), Some("environment"));
        assert_eq!(address.tls_ca.as_deref(), Some("other.pem".as_ref()));
        assert_eq!(address.request_timeout.unwrap().as_millis(), 5);
        let address = http("https://db?token_file=t", Some(config), &environment).unwrap();
        assert_eq!((shown(&address), address.token_file), (None, Some("t".into())));
        for (config, environment) in [
            (Some("[http]\ntoken = hunter2\n"), &[][..]),
            (Some("[http]\ntoken = [\"hunter2\"]\n"), &[]),
            (Some("[http]\ntokken = \"hunter2\"\n"), &[]),
            (None, &[("RECTO_HTTP_TOKKEN", "hunter2")]),
        ] {
            let failure = http("https://db", config, environment).unwrap_err();
            assert!(!format!("{failure:?}").contains("hunter2"), "{failure:?}");
        }
    }

    #[test]
    fn without_any_the_store_is_a_folder_here() {
        let address = StoreArgs::default()
            .address(DEFAULT_STORE, std::iter::empty())
            .unwrap();
        assert_eq!(address, StoreAddress::Embedded("recto.data".into()));
    }

    #[test]
    fn rejects_bad_settings_without_printing_the_secret() {
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
            wait: None,
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
