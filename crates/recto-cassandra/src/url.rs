//! Configuration as a URL: `cassandra://host[:port][,host…]/keyspace?name=value&…`.
//!
//! | parameter | default | |
//! |---|---|---|
//! | `username`, `password` | | the password better in a file or in the environment |
//! | `password_file` | | a file that holds the password and nothing else but a line end |
//! | `tls_ca` | | encrypt; a PEM file of the authorities that sign the nodes' certificates |
//! | `tls_cert`, `tls_key` | | this client's certificate chain and key, PEM files |
//! | `tls_names` | `true` | whether a node's certificate must name its address |
//! | `local_datacenter` | | required if the cluster has several |
//! | `consistency` | `local_quorum` | `one`, `local_one`, `quorum`, `local_quorum`, `all` |
//! | `serial_consistency` | `local_serial` | `serial`, `local_serial` |
//! | `connect_timeout_ms`, `schema_timeout_ms` | 10000, 60000 | |
//! | `retries`, `pool_size`, `in_flight` | 2, 1, 128 | |
//! | `mutation_bytes`, `batch_bytes` | 2097152, 51200 | |
//!
//! Values are percent-encoded. What is wrong is told by its name, never by its value, so that no
//! error holds a password.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use recto_store::{ConsistencyLevel, StoreError, StoreErrorKind};

use crate::config::{CassandraConfig, ClientCertificate, TlsConfig};

/// What such a URL begins with.
pub const SCHEME: &str = "cassandra://";
/// The most bytes a URL may have.
const MAX_URL_BYTES: usize = 8 << 10;
/// The most bytes a file with a password may have.
const MAX_PASSWORD_FILE_BYTES: u64 = 4 << 10;

fn invalid(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, message)
        .with_hint("cassandra://host[:port][,host…]/keyspace?consistency=local_quorum&…")
}

impl CassandraConfig {
    /// The configuration that `url` writes, see [the table](crate::url).
    ///
    /// # Errors
    /// [`StoreErrorKind::Invalid`] if it is not such a URL, has a parameter of another name or a
    /// value it cannot have, or names a password file that cannot be read.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        if url.len() > MAX_URL_BYTES {
            return Err(invalid(format!("the URL has more than {MAX_URL_BYTES} bytes")));
        }
        let rest = url
            .strip_prefix(SCHEME)
            .ok_or_else(|| invalid("the URL does not begin with cassandra://"))?;
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, keyspace) = path
            .split_once('/')
            .ok_or_else(|| invalid("the URL names no keyspace"))?;
        if hosts.contains('@') {
            return Err(invalid("the URL has credentials before its host")
                .with_hint("give them as username=… and password_file=…"));
        }
        let mut config = Self::new(hosts.split(',').filter(|host| !host.is_empty()), keyspace);
        let mut tls = TlsParameters::default();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter
                .split_once('=')
                .ok_or_else(|| invalid("a parameter of the URL has no value"))?;
            let value = decode_percent(value)
                .ok_or_else(|| invalid(format!("the value of {name} is not percent-encoded rightly")))?;
            config.set(name, &value, &mut tls)?;
        }
        config.tls = tls.config()?;
        config.check()?;
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str, tls: &mut TlsParameters) -> Result<(), StoreError> {
        match name {
            "username" => self.username = Some(value.to_owned()),
            "password" => self.password = Some(value.to_owned()),
            "password_file" => self.password = Some(read_password(Path::new(value))?),
            "tls_ca" => tls.ca = Some(value.to_owned()),
            "tls_cert" => tls.certificate = Some(value.to_owned()),
            "tls_key" => tls.key = Some(value.to_owned()),
            "tls_names" => tls.names = Some(parse(name, value)?),
            "local_datacenter" => self.local_datacenter = Some(value.to_owned()),
            "consistency" => self.consistency = parse_level(name, value)?,
            "serial_consistency" => self.serial_consistency = parse_level(name, value)?,
            "connect_timeout_ms" => self.connect_timeout = Duration::from_millis(parse(name, value)?),
            "schema_timeout_ms" => self.schema_timeout = Duration::from_millis(parse(name, value)?),
            "retries" => self.retries = parse(name, value)?,
            "pool_size" => self.pool_size = parse(name, value)?,
            "in_flight" => self.in_flight = parse(name, value)?,
            "mutation_bytes" => self.mutation_bytes = parse(name, value)?,
            "batch_bytes" => self.batch_bytes = parse(name, value)?,
            _ => {
                return Err(invalid(format!(
                    "the URL has a parameter {name:?}, which means nothing"
                )));
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct TlsParameters {
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    names: Option<bool>,
}

impl TlsParameters {
    fn config(self) -> Result<Option<TlsConfig>, StoreError> {
        let Some(ca) = self.ca else {
            if self.certificate.is_some() || self.key.is_some() || self.names.is_some() {
                return Err(invalid("the URL sets TLS up without tls_ca"));
            }
            return Ok(None);
        };
        let mut config = TlsConfig::new(ca);
        config.check_server_name = self.names.unwrap_or(true);
        config.client = match (self.certificate, self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(ClientCertificate {
                certificate_file: certificate.into(),
                key_file: key.into(),
            }),
            _ => return Err(invalid("of tls_cert and tls_key only one is given")),
        };
        Ok(Some(config))
    }
}

fn parse<T: FromStr>(name: &str, value: &str) -> Result<T, StoreError> {
    value
        .parse()
        .map_err(|_| invalid(format!("the URL's {name} has a value it cannot have")))
}

fn parse_level(name: &str, value: &str) -> Result<ConsistencyLevel, StoreError> {
    Ok(match value.to_ascii_lowercase().as_str() {
        "one" => ConsistencyLevel::One,
        "local_one" => ConsistencyLevel::LocalOne,
        "quorum" => ConsistencyLevel::Quorum,
        "local_quorum" => ConsistencyLevel::LocalQuorum,
        "all" => ConsistencyLevel::All,
        "serial" => ConsistencyLevel::Serial,
        "local_serial" => ConsistencyLevel::LocalSerial,
        _ => return Err(invalid(format!("the URL's {name} has a value it cannot have"))),
    })
}

fn read_password(file: &Path) -> Result<String, StoreError> {
    let unreadable = |reason: String| invalid(format!("the password file {} {reason}", file.display()));
    let size = std::fs::metadata(file)
        .map_err(|error| unreadable(error.to_string()))?
        .len();
    if size > MAX_PASSWORD_FILE_BYTES {
        return Err(unreadable(format!(
            "has more than {MAX_PASSWORD_FILE_BYTES} bytes"
        )));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// `None` if an escape is not one, or the bytes are not UTF-8.
fn decode_percent(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(digits[0])? * 16 + digit(digits[1])?;
        bytes.push(u8::try_from(value).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_whole_url() {
        let config = CassandraConfig::from_url(
            "cassandra://10.0.0.1:9142,node.example/shop?username=me&password=p%25%C3%A9&local_datacenter=eu\
             &consistency=QUORUM&serial_consistency=serial&tls_ca=/ca.pem&tls_names=false&retries=0&connect_timeout_ms=500",
        )
        .unwrap();
        assert_eq!(config.hosts, ["10.0.0.1:9142", "node.example"]);
        assert_eq!(config.keyspace, "shop");
        assert_eq!(config.password.as_deref(), Some("p%é"));
        assert_eq!(config.consistency, ConsistencyLevel::Quorum);
        assert_eq!(config.serial_consistency, ConsistencyLevel::Serial);
        assert_eq!(config.connect_timeout, Duration::from_millis(500));
        assert_eq!(config.retries, 0);
        assert!(!config.tls.unwrap().check_server_name);
    }

    #[test]
    fn the_shortest_url_has_the_defaults() {
        let config = CassandraConfig::from_url("cassandra://localhost/shop").unwrap();
        assert_eq!(config, CassandraConfig::new(["localhost"], "shop"));
    }

    #[test]
    fn what_is_wrong_is_refused_and_no_secret_told() {
        for wrong in [
            "http://localhost/shop",
            "cassandra://localhost",
            "cassandra:///shop",
            "cassandra://localhost/",
            "cassandra://localhost/1shop",
            "cassandra://me:hunter2@localhost/shop",
            "cassandra://localhost/shop?password=hunter2",
            "cassandra://localhost/shop?username=me&password=hunter2%",
            "cassandra://localhost/shop?username=me&password=hunter2&pasword=hunter2",
            "cassandra://localhost/shop?consistency=some",
            "cassandra://localhost/shop?consistency=serial",
            "cassandra://localhost/shop?serial_consistency=quorum",
            "cassandra://localhost/shop?retries=-1",
            "cassandra://localhost/shop?retries=17",
            "cassandra://localhost/shop?pool_size=0",
            "cassandra://localhost/shop?tls_key=/key.pem",
            "cassandra://localhost/shop?tls_ca=/ca.pem&tls_key=/key.pem",
            "cassandra://localhost/shop?retries",
        ] {
            let error = CassandraConfig::from_url(wrong).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Invalid, "{wrong}");
            let told = format!("{error:?}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn debug_leaves_the_password_out() {
        let url = "cassandra://localhost/shop?username=me&password=hunter2";
        let config = CassandraConfig::from_url(url).unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
