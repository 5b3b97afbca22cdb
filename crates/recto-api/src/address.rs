//! Address of a running server, such as `http://127.0.0.1:8080`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::ErrorKind;
use crate::error::{Error, Result};
use crate::text::percent_decoded;

/// Secret text, such as a token, that `Debug` does not print.
///
/// ```
/// let secret = recto_api::address::Secret::new("open sesame");
/// assert_eq!(format!("{secret:?}"), "[secret]");
/// assert_eq!(secret.reveal(), "open sesame");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text as a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Returns the secret text, for example to send it in an HTTP header.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Address of a running server, with the parameters of the connection to it.
///
/// ```
/// let address = recto_api::address::HttpAddress::new(true, "recto.example.org", 443);
/// assert!(address.tls && address.token.is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress {
    /// True if the server uses TLS (`https://`).
    pub tls: bool,
    /// Host name, IPv4 address, or IPv6 address in brackets.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Access token. The text form of an address never contains the token, because addresses are
    /// logged, listed and shared.
    pub token: Option<Secret>,
    /// File that contains the access token. `None` means that `token` has the token, or that there
    /// is none.
    pub token_file: Option<PathBuf>,
    /// File with the trusted certificate authorities, in PEM. `None` means the authorities that the
    /// machine trusts.
    pub tls_ca: Option<PathBuf>,
    /// Maximum time to connect to the server; `None` means the client's default of 5 seconds.
    pub connect_timeout: Option<Duration>,
    /// Maximum time in which the server must answer one request; `None` means the client's default
    /// of 60 seconds.
    pub request_timeout: Option<Duration>,
}

/// Names of the parameters after `?` that an `http://` address accepts.
const PARAMETERS: [&str; 4] = ["token_file", "tls_ca", "connect_timeout_ms", "request_timeout_ms"];
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Hint of an error about an invalid address.
const FORM: &str = "write the address as http://host[:port] or https://host[:port]";

impl HttpAddress {
    /// Returns the address of a server at `host` and `port`, with defaults for all other parameters.
    pub fn new(tls: bool, host: impl Into<String>, port: u16) -> Self {
        Self {
            tls,
            host: host.into(),
            port,
            token: None,
            token_file: None,
            tls_ca: None,
            connect_timeout: None,
            request_timeout: None,
        }
    }

    /// Sets the parameter `name` to a value from the text of an address, an environment variable or
    /// a file. The text of an address cannot contain `token`. If both `token` and `token_file` are
    /// set, the one that is set last applies.
    ///
    /// # Errors
    /// The parameter does not exist, or the value is invalid for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "token" => (self.token, self.token_file) = (Some(Secret::new(value)), None),
            "token_file" => (self.token, self.token_file) = (None, Some(value.into())),
            "tls_ca" => self.tls_ca = Some(value.into()),
            "connect_timeout_ms" => self.connect_timeout = Some(milliseconds(name, value, FORM)?),
            "request_timeout_ms" => self.request_timeout = Some(milliseconds(name, value, FORM)?),
            _ => {
                return Err(invalid(format!("there is no parameter {name:?}"))
                    .with_hint(format!("the parameters are {}", PARAMETERS.join(", "))));
            }
        }
        Ok(())
    }

    /// Returns whether the host is this machine, so that requests never reach the network.
    pub fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => bare.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl FromStr for HttpAddress {
    type Err = Error;

    /// Parses `http[s]://host[:port][/][?parameter=value&…]`.
    ///
    /// The error message does not repeat parts of the text that could be a secret.
    fn from_str(text: &str) -> Result<Self> {
        let (tls, text) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(invalid("the address does not begin with http:// or https://")),
        };
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        if text.contains('@') || query.split('&').any(|pair| pair.starts_with("token=")) {
            return Err(no_secrets());
        }
        let authority = place.strip_suffix('/').unwrap_or(place);
        if authority.contains(['/', '#', '%']) || authority.contains(char::is_whitespace) {
            return Err(invalid("the server's address has more than a host and a port"));
        }
        let (host, port) = host_and_port(authority, if tls { HTTPS_PORT } else { HTTP_PORT })?;
        let mut address = Self::new(tls, host, port);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            address.set(name, &percent_decode(value)?)?;
        }
        Ok(address)
    }
}

/// Prints the address without parameters: `http://127.0.0.1:8080`.
impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.tls {
            ("https", HTTPS_PORT)
        } else {
            ("http", HTTP_PORT)
        };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != usual {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

fn host_and_port(text: &str, usual: u16) -> Result<(String, u16)> {
    let (host, port) = match text.rfind(']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .chars()
                    .all(|next| next.is_ascii_alphanumeric() || matches!(next, '.' | '-' | '_'))
        }
    };
    if !is_host {
        return Err(invalid(format!("{host:?} is not a host")));
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => usual,
        Some(digits) => digits
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| invalid(format!("{digits:?} is not a port")))?,
        None => return Err(invalid(format!("{port:?} is not a port"))),
    };
    Ok((host.to_owned(), port))
}

/// Percent-decodes the value of a parameter of an address.
///
/// # Errors
/// The text is not percent-encoded UTF-8.
pub fn percent_decode(text: &str) -> Result<String> {
    percent_decoded(text).ok_or_else(|| {
        let message = "the address is not percent-encoded UTF-8: two hexadecimal digits follow each %";
        Error::new(ErrorKind::InvalidArgument, message).with_hint("write a % itself as %25")
    })
}

/// Parses the value of the parameter `name` as a time in milliseconds. `hint` becomes the hint of
/// an error.
///
/// # Errors
/// The value is not a whole number of milliseconds, or it is 0.
pub fn milliseconds(name: &str, value: &str, hint: &str) -> Result<Duration> {
    match value.parse() {
        Ok(0) | Err(_) => {
            let message = format!("{name} is a whole number of milliseconds, not {value:?}");
            Err(Error::new(ErrorKind::InvalidArgument, message).with_hint(hint))
        }
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with_hint(FORM)
}

fn no_secrets() -> Error {
    invalid("the address of a server cannot have a user, password or token")
        .with_hint("set the token in RECTO_TOKEN, or name its file: ?token_file=FILE")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn http(text: &str) -> HttpAddress {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_a_host_a_port_and_parameters() {
        let address = http("https://recto.example.org/?token_file=a%20b&tls_ca=ca.pem&request_timeout_ms=7");
        assert_eq!((address.tls, address.port), (true, 443));
        assert_eq!(address.token_file.as_deref(), Some("a b".as_ref()));
        assert_eq!(address.request_timeout, Some(Duration::from_millis(7)));
        assert_eq!(address.to_string(), "https://recto.example.org");
        for (text, shown, is_loopback) in [
            ("http://localhost:8080/", "http://localhost:8080", true),
            ("http://[::1]:8080", "http://[::1]:8080", true),
            ("http://127.0.0.1:80", "http://127.0.0.1", true),
            ("http://10.0.0.1", "http://10.0.0.1", false),
            ("https://[2001:db8::1]", "https://[2001:db8::1]", false),
        ] {
            assert_eq!(http(text).to_string(), shown);
            assert_eq!(http(text).is_loopback(), is_loopback, "{text}");
        }
    }

    #[test]
    fn an_address_holds_no_secret_and_none_is_shown() {
        for text in [
            "http://ada:xyzzy@h",
            "http://xyzzy@h/",
            "http://h?token=xyzzy",
            "https://h/?tls_ca=x&token=xyzzy",
        ] {
            let error = text.parse::<HttpAddress>().unwrap_err();
            assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
            assert!(error.hint().unwrap().contains("RECTO_TOKEN"), "{error:?}");
        }
        let mut address = http("http://localhost");
        address.set("token", "xyzzy").unwrap();
        assert!(!format!("{address:?}{address}").contains("xyzzy"));
    }

    #[test]
    fn rejects_invalid_addresses_with_a_hint() {
        for text in [
            "http://",
            "http://:80",
            "http://h:",
            "http://h:0",
            "http://h:99999",
            "http://h:80:80",
            "http://[::1",
            "http://[::1]80",
            "http://[zz]",
            "http://::1",
            "http://h/records",
            "http://h#x",
            "http://h x",
            "http://h?colour=red",
            "http://h?request_timeout_ms=0",
        ] {
            let error = text.parse::<HttpAddress>().unwrap_err();
            assert!(error.hint().is_some(), "{text}: {error}");
        }
    }
}
