//! Table of a server's settings. Flags, environment variables, the file, `recto config check` and
//! the guide are all derived from the table.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::{Config, LogFormat, LogLevel, MetricsAccess};

/// Maximum value of every setting that is a count or a size. It is far above realistic values, and
/// low enough to avoid overflow.
const MAX_COUNT: u64 = 1 << 40;
/// Minimum of the setting for the size of headers, in bytes. The HTTP library requires it.
const MIN_HEADER_BYTES: u64 = 8_192;
/// Maximum of the setting for the size of headers, in bytes.
const MAX_HEADER_BYTES: u64 = 1 << 20;
/// Maximum of settings for numbers of concurrent requests, which semaphores count.
const MAX_PERMITS: u64 = 1 << 24;
/// Maximum pause between two passes of the scrub (background check for damage), in hours: a year.
const MAX_SCRUB_HOURS: u64 = 24 * 365;
/// Maximum speed of the scrub (background check for damage), in MiB per second.
const MAX_SCRUB_MIB: u64 = 1 << 16;
/// Maximum of settings for times, in milliseconds: a day.
const MAX_TIME_MS: u64 = 24 * 60 * 60 * 1_000;

/// Setting of a server: its name, help text, and access to its value.
#[derive(Debug)]
pub struct Setting {
    /// Name in the configuration file. The command-line flag has `-` in place of `_`. The
    /// environment variable is in capitals after `RECTO_SERVE_`.
    pub name: &'static str,
    /// Placeholder for the value in `--help`.
    pub value_name: &'static str,
    /// Description of the setting in `--help`.
    pub help: &'static str,
    /// Returns the current value in a configuration as text; empty if there is none.
    pub show: fn(&Config) -> String,
    /// Sets the value in a configuration from text.
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Setting {
    /// Returns whether the setting is true or false, so that its flag needs no value.
    pub fn is_switch(&self) -> bool {
        self.value_name == "BOOLEAN"
    }
}

/// Returns the setting named `name`, if it exists.
pub(crate) fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// All settings of a server.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        value_name: "ADDRESS",
        help: "Address and port to listen on; port 0 selects a free port [default: 127.0.0.1:8080]",
        show: |config| config.listen.to_string(),
        set: |config, text| address(text).map(|address| config.listen = address),
    },
    Setting {
        name: "read_only",
        value_name: "BOOLEAN",
        help: "Reject every request that would change the store, and do no maintenance; several such servers can share a folder",
        show: |config| config.read_only.to_string(),
        set: |config, text| boolean(text).map(|flag| config.read_only = flag),
    },
    Setting {
        name: "tokens",
        value_name: "FILE",
        help: "File of tokens, as created by `recto token create`",
        show: |config| path_text(config.tokens.as_ref()),
        set: |config, text| path(text).map(|path| config.tokens = path),
    },
    Setting {
        name: "tls_certificate",
        value_name: "FILE",
        help: "Certificate chain (PEM); enables TLS",
        show: |config| path_text(config.tls_certificate.as_ref()),
        set: |config, text| path(text).map(|path| config.tls_certificate = path),
    },
    Setting {
        name: "tls_key",
        value_name: "FILE",
        help: "Private key of the certificate (PEM)",
        show: |config| path_text(config.tls_key.as_ref()),
        set: |config, text| path(text).map(|path| config.tls_key = path),
    },
    Setting {
        name: "behind_proxy",
        value_name: "BOOLEAN",
        help: "Trust a proxy in front of this server, which speaks TLS and sets X-Forwarded-For",
        show: |config| config.behind_proxy.to_string(),
        set: |config, text| boolean(text).map(|flag| config.behind_proxy = flag),
    },
    Setting {
        name: "hosts",
        value_name: "NAMES",
        help: "Host names that clients may use, separated by commas, in addition to localhost",
        show: |config| config.hosts.join(","),
        set: |config, text| host_names(text).map(|hosts| config.hosts = hosts),
    },
    Setting {
        name: "metrics",
        value_name: "WHO",
        help: "Access to /metrics: `token` (only tokens that can read every collection) or `open` [default: \
               token]",
        show: |config| chosen(METRICS, config.metrics),
        set: |config, text| choice(METRICS, text).map(|who| config.metrics = who),
    },
    Setting {
        name: "log_format",
        value_name: "FORMAT",
        help: "Format of log lines: `human` or `json` [default: human]",
        show: |config| chosen(FORMATS, config.log_format),
        set: |config, text| choice(FORMATS, text).map(|format| config.log_format = format),
    },
    Setting {
        name: "log_level",
        value_name: "LEVEL",
        help: "Minimum level of log lines: `error`, `warn`, `info` or `debug` (every request) [default: \
               info]",
        show: |config| chosen(LEVELS, config.log_level),
        set: |config, text| choice(LEVELS, text).map(|level| config.log_level = level),
    },
    Setting {
        name: "audit_log",
        value_name: "FILE",
        help: "Log of changes and their authors: a file to append to, or `stdout`",
        show: |config| path_text(config.audit_log.as_ref()),
        set: |config, text| path(text).map(|path| config.audit_log = path),
    },
    Setting {
        name: "slow_query_ms",
        value_name: "MS",
        help: "Minimum milliseconds for which a page is logged with its plan [default: 1000]",
        show: |config| millis_text(config.slow_query),
        set: |config, text| millis(text, 0).map(|time| config.slow_query = time),
    },
    Setting {
        name: "backup_folder",
        value_name: "FOLDER",
        help: "Folder on this machine for backups by `recto backup --store http://…`; without it, such \
               backups are rejected",
        show: |config| path_text(config.backup_folder.as_ref()),
        set: |config, text| path(text).map(|path| config.backup_folder = path),
    },
    Setting {
        name: "load_folder",
        value_name: "FOLDER",
        help: "Folder for files during a `recto load --store http://…` [default: a folder of the embedded \
               store]",
        show: |config| path_text(config.load_folder.as_ref()),
        set: |config, text| path(text).map(|path| config.load_folder = path),
    },
    Setting {
        name: "max_load_bytes",
        value_name: "BYTES",
        help: "Maximum bytes of a file to load [default: 64 GiB]",
        show: |config| config.limits.load_bytes.to_string(),
        set: |config, text| count(text, 1, MAX_COUNT).map(|bytes| config.limits.load_bytes = bytes),
    },
    Setting {
        name: "scrub_interval_hours",
        value_name: "HOURS",
        help: "Hours between two checks of an embedded store's file for damage; 0 for none [default: 24]",
        show: |config| (config.scrub.interval.as_secs() / 3_600).to_string(),
        set: |config, text| {
            count(text, 0, MAX_SCRUB_HOURS)
                .map(|hours| config.scrub.interval = Duration::from_secs(hours * 3_600))
        },
    },
    Setting {
        name: "scrub_mib_per_second",
        value_name: "MIB",
        help: "Maximum MiB per second that these checks read [default: 8]",
        show: |config| (config.scrub.bytes_per_second >> 20).to_string(),
        set: |config, text| {
            count(text, 1, MAX_SCRUB_MIB).map(|mib| config.scrub.bytes_per_second = mib << 20)
        },
    },
    Setting {
        name: "scrub_fails_ready",
        value_name: "BOOLEAN",
        help: "Let /readyz fail after damage was found",
        show: |config| config.scrub.fails_ready.to_string(),
        set: |config, text| boolean(text).map(|fails| config.scrub.fails_ready = fails),
    },
    Setting {
        name: "max_body_bytes",
        value_name: "BYTES",
        help: "Maximum bytes of the body of a request [default: 16 MiB]",
        show: |config| config.limits.body_bytes.to_string(),
        set: |config, text| count(text, 1, MAX_COUNT).map(|bytes| config.limits.body_bytes = bytes),
    },
    Setting {
        name: "max_url_bytes",
        value_name: "BYTES",
        help: "Maximum bytes of the path and query of a request [default: 16 KiB]",
        show: |config| config.limits.url_bytes.to_string(),
        set: |config, text| count(text, 64, MAX_HEADER_BYTES).map(|bytes| config.limits.url_bytes = bytes),
    },
    Setting {
        name: "max_header_bytes",
        value_name: "BYTES",
        help: "Maximum bytes of the line and headers of a request [default: 32 KiB]",
        show: |config| config.limits.header_bytes.to_string(),
        set: |config, text| {
            count(text, MIN_HEADER_BYTES, MAX_HEADER_BYTES).map(|bytes| config.limits.header_bytes = bytes)
        },
    },
    Setting {
        name: "max_concurrent_requests",
        value_name: "COUNT",
        help: "Maximum number of concurrent requests, without exports and requests that wait [default: 1024]",
        show: |config| config.limits.concurrent_requests.to_string(),
        set: |config, text| count(text, 1, MAX_PERMITS).map(|most| config.limits.concurrent_requests = most),
    },
    Setting {
        name: "max_concurrent_requests_per_token",
        value_name: "COUNT",
        help: "Maximum number of concurrent requests of one token [default: a quarter of all]",
        show: |config| config.limits.concurrent_requests_per_token().to_string(),
        set: |config, text| {
            count(text, 1, MAX_PERMITS).map(|most| config.limits.concurrent_requests_per_token = Some(most))
        },
    },
    Setting {
        name: "max_concurrent_streams",
        value_name: "COUNT",
        help: "Maximum number of concurrent exports; one token has at most a quarter of them [default: 256]",
        show: |config| config.limits.concurrent_streams.to_string(),
        set: |config, text| count(text, 1, MAX_PERMITS).map(|most| config.limits.concurrent_streams = most),
    },
    Setting {
        name: "max_waiting_requests",
        value_name: "COUNT",
        help: "Maximum number of requests that wait for work on the store, such as loads [default: 256]",
        show: |config| config.limits.waiting_requests.to_string(),
        set: |config, text| count(text, 1, MAX_PERMITS).map(|most| config.limits.waiting_requests = most),
    },
    Setting {
        name: "max_waiting_receives",
        value_name: "COUNT",
        help: "Maximum number of concurrent receives from queues; one token has at most a quarter of them \
               [default: 10000]",
        show: |config| config.limits.waiting_receives.to_string(),
        set: |config, text| count(text, 1, MAX_PERMITS).map(|most| config.limits.waiting_receives = most),
    },
    Setting {
        name: "max_connections",
        value_name: "COUNT",
        help: "Maximum number of connections; others wait until the server accepts them [default: 16384]",
        show: |config| config.limits.connections.to_string(),
        set: |config, text| count(text, 1, MAX_PERMITS).map(|most| config.limits.connections = most),
    },
    Setting {
        name: "requests_per_second",
        value_name: "COUNT",
        help: "Maximum requests per second of one token or address; 0 for no limit [default: 1000 with \
               tokens, else 0]",
        show: |config| config.requests_per_second().to_string(),
        set: |config, text| {
            count(text, 0, MAX_PERMITS).map(|most| config.limits.requests_per_second = Some(most))
        },
    },
    Setting {
        name: "request_burst",
        value_name: "COUNT",
        help: "Maximum requests that one token or address can make in a burst [default: 2000]",
        show: |config| config.limits.request_burst.to_string(),
        set: |config, text| count(text, 1, MAX_PERMITS).map(|most| config.limits.request_burst = most),
    },
    Setting {
        name: "request_time_ms",
        value_name: "MS",
        help: "Maximum milliseconds until the reply to a request begins [default: 30000]",
        show: |config| millis_text(config.limits.request_time),
        set: |config, text| millis(text, 1).map(|time| config.limits.request_time = time),
    },
    Setting {
        name: "header_time_ms",
        value_name: "MS",
        help: "Maximum milliseconds for the headers of a request, and for a TLS handshake [default: 10000]",
        show: |config| millis_text(config.limits.header_time),
        set: |config, text| millis(text, 1).map(|time| config.limits.header_time = time),
    },
    Setting {
        name: "idle_time_ms",
        value_name: "MS",
        help: "Minimum milliseconds that a connection without a request stays open [default: 75000]",
        show: |config| millis_text(config.limits.idle_time),
        set: |config, text| millis(text, 1).map(|time| config.limits.idle_time = time),
    },
    Setting {
        name: "stall_time_ms",
        value_name: "MS",
        help: "Maximum milliseconds in which a client reads nothing of its reply [default: 30000]",
        show: |config| millis_text(config.limits.stall_time),
        set: |config, text| millis(text, 1).map(|time| config.limits.stall_time = time),
    },
    Setting {
        name: "shutdown_time_ms",
        value_name: "MS",
        help: "Maximum milliseconds for requests in flight when the server stops [default: 30000]",
        show: |config| millis_text(config.limits.shutdown_time),
        set: |config, text| millis(text, 0).map(|time| config.limits.shutdown_time = time),
    },
];

const METRICS: &[(&str, MetricsAccess)] = &[("token", MetricsAccess::Token), ("open", MetricsAccess::Open)];
const FORMATS: &[(&str, LogFormat)] = &[("human", LogFormat::Human), ("json", LogFormat::Json)];
const LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
];

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:")
        && let Ok(port) = port.parse()
    {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse()
        .map_err(|_| "must be an IP address and a port: 127.0.0.1:8080, [::1]:8080, 0.0.0.0:8443".to_owned())
}

/// Parses a path. Empty text means no path, so that a flag can cancel the path of the file or the
/// environment.
#[allow(clippy::unnecessary_wraps)] // one signature for all kinds of values
fn path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

fn path_text(path: Option<&PathBuf>) -> String {
    path.map_or(String::new(), |path| path.display().to_string())
}

fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

fn host_names(text: &str) -> Result<Vec<String>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
            let has_port = !name.starts_with('[') && name.contains(':');
            if name.chars().all(fits) && !has_port {
                Ok(name.to_ascii_lowercase())
            } else {
                Err(
                    "must be host names without ports, separated by commas: db.example.org,10.0.0.4"
                        .to_owned(),
                )
            }
        })
        .collect()
}

fn number<T: FromStr + PartialOrd + Display>(text: &str, least: T, most: T) -> Result<T, String> {
    let parsed = text.replace('_', "").parse().ok();
    parsed
        .filter(|value| *value >= least && *value <= most)
        .ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

fn count(text: &str, least: u64, most: u64) -> Result<u64, String> {
    number(text, least, most)
}

fn millis(text: &str, least: u64) -> Result<Duration, String> {
    number(text, least, MAX_TIME_MS).map(Duration::from_millis)
}

fn millis_text(time: Duration) -> String {
    time.as_millis().to_string()
}

fn choice<T: Copy>(choices: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
        format!("must be one of {}", names.join(", "))
    })
}

fn chosen<T: Copy + PartialEq>(choices: &[(&str, T)], value: T) -> String {
    let found = choices.iter().find(|(_, one)| *one == value);
    found.map_or(String::new(), |(name, _)| (*name).to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_takes_what_it_shows() {
        for setting in SETTINGS {
            let mut config = Config::default();
            let shown = (setting.show)(&config);
            (setting.set)(&mut config, &shown).unwrap_or_else(|error| panic!("{} {error}", setting.name));
            assert_eq!((setting.show)(&config), shown, "{}", setting.name);
        }
    }

    #[test]
    fn values_out_of_range_are_refused_and_say_what_is_taken() {
        for (name, text, expected) in [
            ("listen", "8080", "must be an IP address"),
            ("listen", "example.org:80", "must be an IP address"),
            ("max_header_bytes", "10", "from 8192 to 1048576"),
            ("max_body_bytes", "-1", "must be a whole number"),
            ("request_time_ms", "0", "from 1 to 86400000"),
            ("behind_proxy", "yes", "true or false"),
            ("log_level", "trace", "`error`, `warn`, `info`, `debug`"),
            ("hosts", "a:80", "without ports"),
            ("hosts", "a b", "without ports"),
        ] {
            let error = (setting(name).unwrap().set)(&mut Config::default(), text).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
        let mut config = Config::default();
        (setting("listen").unwrap().set)(&mut config, "localhost:81").unwrap();
        (setting("hosts").unwrap().set)(&mut config, "DB.example.org, [fe80::1]").unwrap();
        (setting("max_body_bytes").unwrap().set)(&mut config, "1_000").unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:81");
        assert_eq!(config.hosts, ["db.example.org", "[fe80::1]"]);
        assert_eq!(config.limits.body_bytes, 1_000);
    }
}
