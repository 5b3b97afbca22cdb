//! What a server is told: [`Config`], and where each of its settings comes from.
//!
//! Every setting has one name, and may stand in four places; the first of these that has it wins:
//!
//! 1. a flag of the command line: `--max-body-bytes 1000000`
//! 2. the environment: `RECTO_SERVE_MAX_BODY_BYTES=1000000`
//! 3. the table `[serve]` of the file: `max_body_bytes = 1_000_000`
//! 4. its default

mod error;
mod limits;
mod settings;
mod sources;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use error::ConfigError;
pub use limits::{
    DEFAULT_BODY_BYTES, DEFAULT_CONCURRENT_REQUESTS, DEFAULT_CONCURRENT_STREAMS, DEFAULT_CONNECTIONS,
    DEFAULT_HEADER_BYTES, DEFAULT_HEADER_TIME_MS, DEFAULT_IDLE_TIME_MS, DEFAULT_LOAD_BYTES,
    DEFAULT_REQUEST_BURST, DEFAULT_REQUEST_TIME_MS, DEFAULT_REQUESTS_PER_SECOND, DEFAULT_SHUTDOWN_TIME_MS,
    DEFAULT_STALL_TIME_MS, DEFAULT_TOKEN_SHARE, DEFAULT_URL_BYTES, DEFAULT_WAITING_RECEIVES,
    DEFAULT_WAITING_REQUESTS, Limits, MAX_HEADERS,
};
pub(crate) use limits::{permits, token_share};
pub use settings::{SETTINGS, Setting};
pub use sources::{Effective, MAX_CONFIG_BYTES, Origin, Sources};

/// The port a server listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = 8080;
/// From how many milliseconds on a page counts as slow and is logged with its plan.
pub const DEFAULT_SLOW_QUERY_MS: u64 = 1_000;
/// How many hours lie between two rounds of the scrub.
pub const DEFAULT_SCRUB_INTERVAL_HOURS: u64 = 24;
/// How many MiB a second the scrub reads.
pub const DEFAULT_SCRUB_MIB_PER_SECOND: u64 = 8;

const MAKE_A_TOKEN: &str = "make a token with `recto token create NAME --grant '*:read' --tokens tokens.toml`, \
                            and serve with --tokens tokens.toml";

/// Who may read `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Who may read every collection without a row filter.
    Token,
    /// Anyone who reaches the server.
    Open,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Human,
    /// A JSON object a line.
    Json,
}

/// Which log lines there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What failed and needs a person.
    Error,
    /// The same, slow queries, and requests that the server failed.
    Warn,
    /// The same, and what the server itself does.
    Info,
    /// The same, and every request.
    Debug,
}

/// What a server is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Whether the server rejects every request that would change the store, and leaves maintenance to other processes.
    pub read_only: bool,
    /// The file of tokens; without one everybody who reaches the server may do everything.
    pub tokens: Option<PathBuf>,
    /// The certificate chain, PEM; with `tls_key` the server speaks TLS only.
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Whether a proxy stands before the server, speaks TLS, and adds the client's address to
    /// `X-Forwarded-For`.
    pub behind_proxy: bool,
    /// Host names a request may be for, without ports, beside `localhost`, `127.0.0.1` and `[::1]`.
    pub hosts: Vec<String>,
    /// Who may read `/metrics`.
    pub metrics: MetricsAccess,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which log lines there are.
    pub log_level: LogLevel,
    /// Where to log who changed what: a file, or `stdout`; without one nothing is logged of it.
    pub audit_log: Option<PathBuf>,
    /// From when on a page counts as slow and is logged with its plan.
    pub slow_query: Duration,
    /// The folder in which backups that are asked for over HTTP are made; none without it.
    pub backup_folder: Option<PathBuf>,
    /// The folder in which files that are sent lie while they are loaded; none are taken without it.
    pub load_folder: Option<PathBuf>,
    /// How an embedded store is scrubbed.
    pub scrub: Scrub,
    /// Limits on what comes in.
    pub limits: Limits,
}

/// How an embedded store is scrubbed: read through in the background, to find damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scrub {
    /// The time between the end of one round and the beginning of the next; zero: no scrub.
    pub interval: Duration,
    /// How many bytes a second are read.
    pub bytes_per_second: u64,
    /// Whether a store that is known to be damaged fails `/readyz`.
    pub fails_ready: bool,
}

impl Default for Scrub {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(DEFAULT_SCRUB_INTERVAL_HOURS * 3_600),
            bytes_per_second: DEFAULT_SCRUB_MIB_PER_SECOND << 20,
            fails_ready: false,
        }
    }
}

impl Scrub {
    /// How long reading so many bytes should take.
    pub(crate) fn pause(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second.max(1) as f64)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            read_only: false,
            tokens: None,
            tls_certificate: None,
            tls_key: None,
            behind_proxy: false,
            hosts: Vec::new(),
            metrics: MetricsAccess::Token,
            log_format: LogFormat::Human,
            log_level: LogLevel::Info,
            audit_log: None,
            slow_query: Duration::from_millis(DEFAULT_SLOW_QUERY_MS),
            backup_folder: None,
            load_folder: None,
            scrub: Scrub::default(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Whether it speaks TLS itself.
    pub fn has_tls(&self) -> bool {
        self.tls_certificate.is_some()
    }

    /// Requests a second of one token, or of one address where there is no token; 0 for no limit.
    pub fn requests_per_second(&self) -> u64 {
        let unset = if self.tokens.is_some() {
            DEFAULT_REQUESTS_PER_SECOND
        } else {
            0
        };
        self.limits.requests_per_second.unwrap_or(unset)
    }

    /// What must hold of the settings together.
    ///
    /// # Errors
    /// Half of a key pair; a proxy, or an address other machines reach, without tokens; such an address
    /// without TLS where no proxy speaks it.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            let error = ConfigError::new("tls_certificate and tls_key are set together or not at all");
            return Err(error.with_hint("both are PEM files"));
        }
        let address = self.listen;
        if self.tokens.is_none() && self.behind_proxy {
            let error = ConfigError::new(
                "whoever reaches the proxy reaches this server, and no tokens say who may ask",
            );
            return Err(error.with_hint(format!("{MAKE_A_TOKEN}; or leave --behind-proxy out")));
        }
        if address.ip().is_loopback() {
            return Ok(());
        }
        if self.tokens.is_none() {
            let error = ConfigError::new(format!(
                "{address} can be reached from other machines, and no tokens say who may ask"
            ));
            return Err(error.with_hint(format!("{MAKE_A_TOKEN}; or listen on 127.0.0.1")));
        }
        if !self.has_tls() && !self.behind_proxy {
            let error = ConfigError::new(format!(
                "{address} can be reached from other machines, and tokens would travel in the clear"
            ));
            return Err(error.with_hint(
                "set --tls-certificate and --tls-key, or --behind-proxy if a proxy before this server speaks TLS",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_no_door_for_everybody() {
        let mut config = Config {
            behind_proxy: true,
            ..Config::default()
        };
        let error = config.check().unwrap_err();
        assert!(error.to_string().contains("no tokens"), "{error}");
        assert!(
            error.hint().unwrap().contains("recto token create NAME"),
            "{error:?}"
        );
        config.tokens = Some("tokens.toml".into());
        config.check().unwrap();
    }

    #[test]
    fn addresses_others_reach_need_tokens_and_tls() {
        let mut config = Config::default();
        config.check().unwrap();
        config.listen = "[::1]:0".parse().unwrap();
        config.check().unwrap();
        for address in ["0.0.0.0:80", "[::]:80", "192.168.1.4:80", "[2001:db8::1]:80"] {
            let mut config = Config {
                listen: address.parse().unwrap(),
                ..Config::default()
            };
            assert!(config.check().unwrap_err().to_string().contains("no tokens"));
            config.tokens = Some("tokens.toml".into());
            assert!(config.check().unwrap_err().to_string().contains("in the clear"));
            config.behind_proxy = true;
            config.check().unwrap();
            config.behind_proxy = false;
            config.tls_certificate = Some("cert.pem".into());
            assert!(config.check().unwrap_err().to_string().contains("together"));
            config.tls_key = Some("key.pem".into());
            config.check().unwrap();
        }
    }
}
