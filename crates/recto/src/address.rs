//! Parsing of store addresses, which the command line accepts as `--store`.

mod from;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use recto_store::ConsistencyLevel;

use crate::error::{Error, ErrorKind, Result};
pub use recto_api::address::{HttpAddress, Secret};
use recto_api::address::{milliseconds, percent_decode};

/// Address of a store: a folder, a keyspace of a Cassandra cluster, or the URL of a Recto server.
///
/// ```
/// use recto::StoreAddress;
///
/// let address: StoreAddress = "cassandra://db1,db2/shop?local_datacenter=dc1".parse()?;
/// assert_eq!(address.to_string(), "cassandra://db1:9042,db2:9042/shop");
/// assert!(matches!("/var/lib/shop".parse()?, StoreAddress::Embedded(_)));
/// # Ok::<(), recto::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreAddress {
    /// Folder of an embedded store.
    Embedded(PathBuf),
    /// A keyspace of a Cassandra cluster.
    Cassandra(Box<CassandraAddress>),
    /// URL of a running Recto server.
    Http(Box<HttpAddress>),
}

/// A keyspace of a Cassandra cluster, and the parameters of the connection to it.
///
/// ```
/// let mut address = recto::CassandraAddress::new(vec!["db1:9042".into()], "shop");
/// address.set("consistency", "quorum")?;
/// assert!(address.set("consistency", "most").is_err());
/// # Ok::<(), recto::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CassandraAddress {
    /// Contact points, `host:port`.
    pub hosts: Vec<String>,
    /// Name of the keyspace, `[a-z][a-z0-9_]{0,47}`.
    pub keyspace: String,
    /// User name with which Recto logs in to the cluster.
    pub username: Option<String>,
    /// Password of `username`.
    pub password: Option<Secret>,
    /// True if Recto connects to the cluster with TLS.
    pub tls: bool,
    /// File with the trusted certificate authorities, in PEM. Required with TLS.
    pub tls_ca: Option<PathBuf>,
    /// If true (the default), the certificate of a node must contain the address that Recto
    /// connects to.
    pub tls_check_server_name: bool,
    /// PEM file with the client's certificate chain.
    pub tls_certificate: Option<PathBuf>,
    /// PEM file with the client's private key.
    pub tls_key: Option<PathBuf>,
    /// Data center whose nodes receive the requests. Required if the cluster has several data centers.
    pub local_datacenter: Option<String>,
    /// Consistency level of reads and writes: the number of replicas that must answer. `None`:
    /// `local_quorum`.
    pub consistency: Option<ConsistencyLevel>,
    /// Replicas that decide conditional writes: `Serial` (of all data centers) or `LocalSerial`. `None`:
    /// `LocalSerial`.
    pub serial_consistency: Option<ConsistencyLevel>,
    /// Number of replicas of a keyspace that `apply` creates: `3`, or `dc1:3,dc2:2`. `None`: three in each
    /// data center, or one per node if the data center has fewer nodes.
    pub replication: Option<String>,
    /// Maximum time to connect. `None`: 10 s.
    pub connect_timeout: Option<Duration>,
    /// Maximum time for one request. `None`: 5 s for a read, 10 s for a write.
    pub request_timeout: Option<Duration>,
    /// Maximum number of times that a repeatable request is resent, at most 16. `None`: two.
    pub retries: Option<u32>,
    /// Connections per node, 1 to 64. `None`: one.
    pub pool_size: Option<u16>,
    /// Maximum number of writes that a load has in flight at the same time, 1 to 4096. `None`: 128.
    pub in_flight: Option<usize>,
    /// Maximum size of one record's write in bytes, 64 KiB to 16 MiB. `None`: 2 MiB, or the cluster's limit
    /// if that is smaller.
    pub mutation_bytes: Option<usize>,
    /// Maximum size of a logged batch in bytes, 1 KiB to 16 MiB. `None`: the cluster's limit, which is 50 KiB
    /// unless it was configured otherwise.
    pub batch_bytes: Option<usize>,
}

/// Cassandra's native protocol port.
pub const CASSANDRA_PORT: u16 = 9042;
/// Parameters that a `cassandra://` address accepts.
const PARAMETERS: [&str; 18] = [
    "username",
    "password",
    "tls",
    "tls_ca",
    "tls_check_server_name",
    "tls_certificate",
    "tls_key",
    "local_datacenter",
    "consistency",
    "replication",
    "connect_timeout_ms",
    "request_timeout_ms",
    "serial_consistency",
    "retries",
    "pool_size",
    "in_flight",
    "mutation_bytes",
    "batch_bytes",
];

/// Schemes (the text before `://`) of addresses that are not folders, in lower case.
const SCHEMES: [&str; 3] = ["cassandra", "http", "https"];

const KINDS: &str =
    "use a folder, cassandra://host[:port][,host…]/keyspace, or http://host:port of a running server";

impl FromStr for StoreAddress {
    type Err = Error;

    /// Parses a folder, `cassandra://[user[:password]@]host[:port][,host…]/keyspace[?parameter=value&…]`, or
    /// `http[s]://host[:port][?parameter=value&…]`.
    fn from_str(text: &str) -> Result<Self> {
        if let Some(rest) = text.strip_prefix("cassandra://") {
            return parse_cassandra(rest).map(|address| Self::Cassandra(Box::new(address)));
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return text.parse().map(|address| Self::Http(Box::new(address)));
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("there is no store of kind {scheme}://"),
            )
            .with_hint(KINDS));
        }
        // Reject a misspelled address here: as a folder name, it would appear in messages, together
        // with any password in it.
        let scheme = text
            .split_once(':')
            .map(|(scheme, _)| scheme.to_ascii_lowercase());
        if scheme.is_some_and(|scheme| SCHEMES.contains(&scheme.as_str())) || text.contains("password=") {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the store's address is not a folder, and does not begin with cassandra://, http:// or \
                 https://",
            )
            .with_hint(
                "write both slashes: cassandra://host[:port][,host…]/keyspace, http://host:port; for a \
                 folder with such a name, write ./ before it",
            ));
        }
        if text.is_empty() {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "the store's address is empty").with_hint(KINDS),
            );
        }
        Ok(Self::Embedded(PathBuf::from(text)))
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(folder) => write!(f, "{}", folder.display()),
            Self::Cassandra(address) => {
                write!(f, "cassandra://{}/{}", address.hosts.join(","), address.keyspace)
            }
            Self::Http(address) => write!(f, "{address}"),
        }
    }
}

/// Error hint: the syntax of a Cassandra address.
const FORM: &str = "the form of an address is cassandra://host[:port][,host…]/keyspace[?parameter=value&…]";

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with_hint(FORM)
}

fn parse_cassandra(text: &str) -> Result<CassandraAddress> {
    let (text, query) = text.split_once('?').unwrap_or((text, ""));
    // Reject an unencoded `@` first. Later errors quote parts of the address, and a part could belong to a
    // password.
    if text
        .split_once('/')
        .is_some_and(|(_, keyspace)| keyspace.contains('@'))
        || query.contains('@')
    {
        return Err(invalid(
            "the user name or password has a character with a special meaning in an address",
        )
        .with_hint("percent-encode it: / is %2F, ? is %3F, @ is %40"));
    }
    let (authority, keyspace) = text
        .split_once('/')
        .ok_or_else(|| invalid("the cassandra:// address has no keyspace"))?;
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (Some(credentials), hosts),
        None => (None, authority),
    };
    check_keyspace(keyspace)?;
    let mut address = CassandraAddress::new(
        hosts.split(',').map(host_and_port).collect::<Result<Vec<_>>>()?,
        keyspace,
    );
    if let Some(credentials) = credentials {
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (credentials, None),
        };
        address.username = Some(percent_decode(user)?);
        address.password = password.map(percent_decode).transpose()?.map(Secret::new);
    }
    address.set_all(query)?;
    Ok(address)
}

fn check_keyspace(keyspace: &str) -> Result<()> {
    let mut characters = keyspace.chars();
    let valid = keyspace.len() <= 48
        && characters.next().is_some_and(|first| first.is_ascii_lowercase())
        && characters.all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_');
    if valid {
        return Ok(());
    }
    Err(invalid(format!(
        "{keyspace:?} is not a keyspace name: use a-z first, then a-z, 0-9 and _, at most 48 characters"
    )))
}

/// Parses `host`, `host:port`, `[v6]` or `[v6]:port`, and adds the default port.
fn host_and_port(text: &str) -> Result<String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest
            .split_once(']')
            .ok_or_else(|| invalid(format!("{text:?} has no closing ]")))?;
        match after.strip_prefix(':') {
            None if !after.is_empty() => return Err(invalid(format!("{text:?} has no : before its port"))),
            port => (format!("[{host}]"), port),
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        }
    };
    if host.is_empty() {
        return Err(invalid("a host of the address is empty"));
    }
    let port = match port {
        None => CASSANDRA_PORT,
        Some(port) => port
            .parse()
            .map_err(|_| invalid(format!("{port:?} is not a port")))?,
    };
    Ok(format!("{host}:{port}"))
}

impl CassandraAddress {
    /// Returns the address of a keyspace at `hosts` (`host:port` each), with defaults for all other
    /// parameters.
    pub fn new(hosts: Vec<String>, keyspace: impl Into<String>) -> Self {
        Self {
            hosts,
            keyspace: keyspace.into(),
            username: None,
            password: None,
            tls: false,
            tls_ca: None,
            tls_check_server_name: true,
            tls_certificate: None,
            tls_key: None,
            local_datacenter: None,
            consistency: None,
            replication: None,
            connect_timeout: None,
            request_timeout: None,
            serial_consistency: None,
            retries: None,
            pool_size: None,
            in_flight: None,
            mutation_bytes: None,
            batch_bytes: None,
        }
    }

    /// Sets the parameters that the query (`name=value&…`) of an address contains.
    fn set_all(&mut self, query: &str) -> Result<()> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.set(name, &percent_decode(value)?)?;
        }
        Ok(())
    }

    /// Parses an address that [`to_recorded`](Self::to_recorded) wrote. A value of `parameters` applies only
    /// if the address does not contain that parameter.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) fn recorded<'p>(
        text: &str,
        parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> Result<Self> {
        let StoreAddress::Cassandra(given) = text.parse()? else {
            return Err(invalid("the address of a keyspace must begin with cassandra://"));
        };
        let mut address = Self::new(given.hosts, given.keyspace);
        for (name, value) in parameters {
            address.set(name, value)?;
        }
        address.set_all(text.split_once('?').map_or("", |(_, query)| query))?;
        Ok(address)
    }

    /// Returns the address as text that can be stored. The text lacks credentials and parameters that only
    /// writers need.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) fn to_recorded(&self) -> String {
        let path = |path: &PathBuf| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            absolute.to_string_lossy().into_owned()
        };
        let parameters = [
            ("tls", self.tls.then(|| "true".to_owned())),
            ("tls_ca", self.tls_ca.as_ref().map(path)),
            (
                "tls_check_server_name",
                (!self.tls_check_server_name).then(|| "false".to_owned()),
            ),
            ("tls_certificate", self.tls_certificate.as_ref().map(path)),
            ("tls_key", self.tls_key.as_ref().map(path)),
            ("local_datacenter", self.local_datacenter.clone()),
            (
                "consistency",
                self.consistency.and_then(consistency_text).map(str::to_owned),
            ),
            (
                "connect_timeout_ms",
                self.connect_timeout.map(|time| time.as_millis().to_string()),
            ),
            ("retries", self.retries.map(|retries| retries.to_string())),
            ("pool_size", self.pool_size.map(|size| size.to_string())),
        ];
        let said = parameters.into_iter().filter_map(|(name, value)| {
            let value = percent_encoding::utf8_percent_encode(&value?, percent_encoding::NON_ALPHANUMERIC)
                .to_string();
            Some(format!("{name}={value}"))
        });
        let query = said.collect::<Vec<_>>().join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        format!(
            "cassandra://{}/{}{mark}{query}",
            self.hosts.join(","),
            self.keyspace
        )
    }

    /// Sets the parameter `name` to `value`, a text from an address, an environment variable or a file.
    ///
    /// # Errors
    /// The parameter does not exist, or the value is invalid for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "username" => self.username = Some(value.to_owned()),
            "password" => self.password = Some(Secret::new(value)),
            "tls" => self.tls = boolean(name, value)?,
            "tls_ca" => self.tls_ca = Some(value.into()),
            "tls_check_server_name" => self.tls_check_server_name = boolean(name, value)?,
            "tls_certificate" => self.tls_certificate = Some(value.into()),
            "tls_key" => self.tls_key = Some(value.into()),
            "local_datacenter" => self.local_datacenter = Some(value.to_owned()),
            "consistency" => self.consistency = Some(consistency(value)?),
            "replication" => self.replication = Some(value.to_owned()),
            "connect_timeout_ms" => self.connect_timeout = Some(milliseconds(name, value, FORM)?),
            "request_timeout_ms" => self.request_timeout = Some(milliseconds(name, value, FORM)?),
            "serial_consistency" => self.serial_consistency = Some(serial_consistency(value)?),
            "retries" => self.retries = Some(whole(name, value)?),
            "pool_size" => self.pool_size = Some(whole(name, value)?),
            "in_flight" => self.in_flight = Some(whole(name, value)?),
            "mutation_bytes" => self.mutation_bytes = Some(whole(name, value)?),
            "batch_bytes" => self.batch_bytes = Some(whole(name, value)?),
            _ => {
                return Err(invalid(format!("there is no parameter {name:?}"))
                    .with_hint(format!("the parameters are {}", PARAMETERS.join(", "))));
            }
        }
        self.tls |= self.tls_ca.is_some() || self.tls_certificate.is_some();
        Ok(())
    }
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" | "" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(format!("{name} must be true or false, not {value:?}"))),
    }
}

fn whole<T: FromStr>(name: &str, value: &str) -> Result<T> {
    let number = value.parse();
    number.map_err(|_| invalid(format!("{name} must be a whole number, not {value:?}")))
}

fn serial_consistency(value: &str) -> Result<ConsistencyLevel> {
    match value {
        "serial" => Ok(ConsistencyLevel::Serial),
        "local_serial" => Ok(ConsistencyLevel::LocalSerial),
        _ => Err(invalid(format!("{value:?} is not a serial consistency level"))
            .with_hint("use serial or local_serial")),
    }
}

/// Consistency levels of reads and writes, as addresses name them.
const LEVELS: [(&str, ConsistencyLevel); 5] = [
    ("one", ConsistencyLevel::One),
    ("local_one", ConsistencyLevel::LocalOne),
    ("quorum", ConsistencyLevel::Quorum),
    ("local_quorum", ConsistencyLevel::LocalQuorum),
    ("all", ConsistencyLevel::All),
];

fn consistency(value: &str) -> Result<ConsistencyLevel> {
    let found = LEVELS.into_iter().find(|(text, _)| *text == value);
    found.map(|(_, level)| level).ok_or_else(|| {
        invalid(format!("{value:?} is not a consistency level"))
            .with_hint("use one, local_one, quorum, local_quorum or all")
    })
}

#[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
fn consistency_text(level: ConsistencyLevel) -> Option<&'static str> {
    let found = LEVELS.into_iter().find(|(_, one)| *one == level);
    found.map(|(text, _)| text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cassandra(text: &str) -> CassandraAddress {
        match text.parse().unwrap() {
            StoreAddress::Cassandra(address) => *address,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parses_all_parts_and_prints_no_secret() {
        let address = cassandra("cassandra://ada:p%40ss@db1,db2:9043,[::1]/shop?consistency=quorum&tls=true");
        assert_eq!(address.hosts, ["db1:9042", "db2:9043", "[::1]:9042"]);
        assert_eq!(address.password.as_ref().unwrap().reveal(), "p@ss");
        assert_eq!(address.consistency, Some(ConsistencyLevel::Quorum));
        assert!(!format!("{address:?}").contains("p@ss"));
        let shown = StoreAddress::Cassandra(Box::new(address)).to_string();
        assert_eq!(shown, "cassandra://db1:9042,db2:9043,[::1]:9042/shop");
    }

    #[test]
    fn records_no_credentials_and_prefers_recorded_values() {
        let given = "cassandra://ada:p%40ss@db1,[::1]:9043/shop?consistency=quorum&local_datacenter=dc%201&tls_ca=/ca.pem";
        let text = cassandra(given).to_recorded();
        assert_eq!(
            text,
            "cassandra://db1:9042,[::1]:9043/shop?tls=true&tls_ca=%2Fca%2Epem&local_datacenter=dc%201&consistency=quorum"
        );
        let parameters = [
            ("username", "bob"),
            ("password", "x"),
            ("consistency", "one"),
            ("retries", "3"),
        ];
        let read = CassandraAddress::recorded(&text, parameters).unwrap();
        assert_eq!((read.username.as_deref(), read.retries), (Some("bob"), Some(3)));
        assert_eq!(
            (read.consistency, read.tls),
            (Some(ConsistencyLevel::Quorum), true)
        );
        assert_eq!(read.hosts, ["db1:9042", "[::1]:9043"]);
        assert_eq!(read.to_recorded().replace("&retries=3", ""), text);
    }

    #[test]
    fn an_error_repeats_no_part_of_a_password() {
        for separator in ["/", "?", "/?", "?/", "@/"] {
            let text = format!("cassandra://ada:xyzzy{separator}plugh@h/ks");
            let error = text.parse::<StoreAddress>().unwrap_err();
            let shown = format!("{error:?}");
            assert!(!shown.contains("xyzzy") && !shown.contains("plugh"), "{shown}");
            assert!(error.hint().unwrap().contains("%2F"), "{shown}");
        }
    }

    #[test]
    fn an_address_with_a_slash_too_few_is_no_folder_and_not_shown() {
        for text in [
            "cassandra:/h/ks?password=xyzzy",
            "cassandra//ada:xyzzy@h/ks?password=xyzzy",
            "CASSANDRA:ada:xyzzy@h/ks",
        ] {
            let error = text.parse::<StoreAddress>().unwrap_err();
            assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
        }
        assert!("./cassandra:h".parse::<StoreAddress>().is_ok());
    }

    #[test]
    fn rejects_malformed_text_with_a_hint() {
        for text in [
            "",
            "cassandra://h",
            "cassandra:///ks",
            "cassandra://h/Ks",
            "cassandra://h:x/ks",
            "cassandra://[::1]9043/ks",
            "cassandra://h/ks?colour=red",
            "cassandra://h/ks?consistency=most",
            "cassandra://h/ks?request_timeout_ms=0",
            "cassandra://h/ks?serial_consistency=quorum",
            "cassandra://h/ks?in_flight=many",
            "mysql://h/ks",
            "Cassandra://h/ks",
            "cassandra:/h/ks",
            "cassandra:h/ks",
            "http:/localhost:8080",
            "HTTP://localhost:8080",
        ] {
            let error = text.parse::<StoreAddress>().unwrap_err();
            assert!(error.hint().is_some(), "{text}: {error}");
        }
    }
}
