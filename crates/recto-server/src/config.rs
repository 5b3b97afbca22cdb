//! Configuration of a server: [`Config`], and the sources of its settings.
//!
//! Each setting has one name and may come from four sources. The first source in the list that has
//! the setting wins:
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

/// Default port of a server.
pub const DEFAULT_PORT: u16 = 8080;
/// Default duration from which a page counts as slow and is logged with its plan, in milliseconds.
pub const DEFAULT_SLOW_QUERY_MS: u64 = 1_000;
/// Default pause between two passes of the scrub (background check for damage), in hours.
pub const DEFAULT_SCRUB_INTERVAL_HOURS: u64 = 24;
/// Default speed of the scrub (background check for damage), in MiB per second.
pub const DEFAULT_SCRUB_MIB_PER_SECOND: u64 = 8;

const MAKE_A_TOKEN: &str = "create a token with `recto token create NAME --grant '*:read' --tokens \
    tokens.toml`, and serve with --tokens tokens.toml";

/// Clients that may read `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Clients with a token that may read every collection without a row filter.
    Token,
    /// Everybody who can reach the server.
    Open,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Human,
    /// One JSON object per line.
    Json,
}

/// Least severe level of log lines that the server writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Failures that an operator must handle.
    Error,
    /// Lines of [`Error`](Self::Error), slow queries, and requests that failed because of the
    /// server.
    Warn,
    /// Lines of [`Warn`](Self::Warn), and actions of the server itself.
    Info,
    /// Lines of [`Info`](Self::Info), and every request.
    Debug,
}

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address that the server listens on.
    pub listen: SocketAddr,
    /// True if the server rejects every request that would change the store, and leaves maintenance
    /// to other processes.
    pub read_only: bool,
    /// File of access tokens. `None`: every client that can reach the server has all rights.
    pub tokens: Option<PathBuf>,
    /// Certificate chain, PEM. With `tls_key`, the server accepts TLS only.
    pub tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, PEM.
    pub tls_key: Option<PathBuf>,
    /// True if a proxy in front of the server terminates TLS and adds the client's address to
    /// `X-Forwarded-For`.
    pub behind_proxy: bool,
    /// Host names that requests may use, without ports, in addition to `localhost`, `127.0.0.1` and `[::1]`.
    pub hosts: Vec<String>,
    /// Clients that may read `/metrics`.
    pub metrics: MetricsAccess,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Least severe level of log lines that the server writes.
    pub log_level: LogLevel,
    /// Target of the audit log, which records who changed what: a file, or `stdout`. `None`: no audit log.
    pub audit_log: Option<PathBuf>,
    /// Duration from which a page counts as slow and is logged with its plan.
    pub slow_query: Duration,
    /// Folder for backups that clients request over HTTP. `None`: the server makes no such backups.
    pub backup_folder: Option<PathBuf>,
    /// Folder for uploaded files while the server loads them. `None`: the server accepts no uploaded files.
    pub load_folder: Option<PathBuf>,
    /// Settings of the scrub, which checks an embedded store for damage in the background.
    pub scrub: Scrub,
    /// Limits of requests and connections.
    pub limits: Limits,
}

/// Settings of the scrub. The scrub reads an embedded store in the background to find damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scrub {
    /// Pause between the end of one pass over the store and the start of the next; zero turns the
    /// scrub off.
    pub interval: Duration,
    /// Number of bytes that the scrub reads per second.
    pub bytes_per_second: u64,
    /// True if `/readyz` fails while the store is known to be damaged.
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
    /// Returns the time that reading `bytes` bytes should take, so that the scrub keeps its speed
    /// limit.
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
    /// Returns whether the server itself terminates TLS.
    pub fn has_tls(&self) -> bool {
        self.tls_certificate.is_some()
    }

    /// Returns the maximum number of requests per second of one token, or of one address on a
    /// server without tokens. 0 means no limit.
    pub fn requests_per_second(&self) -> u64 {
        let unset = if self.tokens.is_some() {
            DEFAULT_REQUESTS_PER_SECOND
        } else {
            0
        };
        self.limits.requests_per_second.unwrap_or(unset)
    }

    /// Checks the rules that concern several settings.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// * Only one of certificate and key is set.
    /// * The server has no tokens, although it is behind a proxy or other machines can reach its
    ///   address.
    /// * Other machines can reach its address, and neither the server nor a proxy terminates TLS.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            let error = ConfigError::new("tls_certificate and tls_key must be set together");
            return Err(error.with_hint("set both to PEM files"));
        }
        let address = self.listen;
        if self.tokens.is_none() && self.behind_proxy {
            let error = ConfigError::new(
                "--behind-proxy needs tokens: anyone who reaches the proxy has access to this server",
            );
            return Err(error.with_hint(format!("{MAKE_A_TOKEN}; or leave out --behind-proxy")));
        }
        if address.ip().is_loopback() {
            return Ok(());
        }
        if self.tokens.is_none() {
            let error = ConfigError::new(format!(
                "other machines can reach {address}, but the server has no tokens"
            ));
            return Err(error.with_hint(format!("{MAKE_A_TOKEN}; or listen on 127.0.0.1")));
        }
        if !self.has_tls() && !self.behind_proxy {
            let error = ConfigError::new(format!(
                "other machines can reach {address}, and would send tokens without encryption"
            ));
            return Err(error.with_hint(
                "set --tls-certificate and --tls-key, or --behind-proxy if a proxy in front of this server \
                 speaks TLS",
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
        assert!(error.to_string().contains("needs tokens"), "{error}");
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
            assert!(
                config
                    .check()
                    .unwrap_err()
                    .to_string()
                    .contains("without encryption")
            );
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
