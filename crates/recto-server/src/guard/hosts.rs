//! Check of the host name in a request, against DNS rebinding.
//!
//! A page of another site can use a host name that resolves to 127.0.0.1. The browser then takes
//! replies of this server for replies of that site. But the request contains the site's host name,
//! which is not a name of this server, so the server rejects it.

use std::net::IpAddr;

use axum::http::{Request, header};

use crate::config::Config;
use crate::problem::Problem;
use recto::problem::ProblemType;

/// Host names of the local machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Host names that requests may have.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Accepted host names. `None`: every name.
    names: Option<Vec<String>>,
}

impl Hosts {
    /// Returns the accepted host names. On a loopback address, or with configured hosts, they are
    /// the names of the local machine, the server's address, and the configured names. Otherwise
    /// every name is accepted.
    pub(crate) fn new(config: &Config) -> Self {
        let checked = config.listen.ip().is_loopback() || !config.hosts.is_empty();
        let names = LOOPBACK
            .iter()
            .map(|name| (*name).to_owned())
            .chain(own_name(config.listen.ip()))
            .chain(config.hosts.iter().cloned());
        Self {
            names: checked.then(|| names.collect()),
        }
    }

    /// Rejects a request with an unknown host name, with two hosts, or without a host.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        let Some(names) = &self.names else {
            return Ok(());
        };
        let mut headers = request.headers().get_all(header::HOST).iter();
        let (of_header, more) = (headers.next(), headers.next());
        let of_url = request.uri().authority().map(axum::http::uri::Authority::as_str);
        let of_header = of_header.map(|value| value.to_str().unwrap_or(""));
        let allowed = |text: &str| {
            names
                .iter()
                .any(|name| name.eq_ignore_ascii_case(without_port(text)))
        };
        let said = of_header.is_some() || of_url.is_some();
        if said && more.is_none() && of_header.is_none_or(allowed) && of_url.is_none_or(allowed) {
            return Ok(());
        }
        Err(Problem::new(
            ProblemType::Misdirected,
            "the host name of the request is not one of this server's",
        )
        .with_hint("use localhost, or add the host name with --hosts"))
    }
}

/// Returns an address as the header `Host` has it. Returns `None` for 0.0.0.0 and `::`, which mean
/// all addresses of the machine.
fn own_name(address: IpAddr) -> Option<String> {
    match address {
        address if address.is_unspecified() => None,
        IpAddr::V4(address) => Some(address.to_string()),
        IpAddr::V6(address) => Some(format!("[{address}]")),
    }
}

/// Removes the port from `host:port`. Brackets of IPv6 addresses stay.
pub(crate) fn without_port(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ask(url: &str, hosts: &[&str]) -> Request<()> {
        let mut request = Request::builder().uri(url);
        for host in hosts {
            request = request.header("host", *host);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn on_loopback_only_its_names_and_those_configured() {
        let config = Config {
            hosts: vec!["db.example".into()],
            ..Config::default()
        };
        let hosts = Hosts::new(&config);
        for good in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:1",
            "[::1]:8080",
            "[::1]",
            "db.example:80",
        ] {
            hosts
                .check(&ask("/", &[good]))
                .unwrap_or_else(|_| panic!("{good}"));
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.2",
            "",
            "localhost:80:80",
            "::1",
            "0.0.0.0",
        ] {
            hosts.check(&ask("/", &[bad])).unwrap_err();
        }
        hosts.check(&ask("/", &[])).unwrap_err();
        hosts
            .check(&ask("/", &["localhost", "evil.example"]))
            .unwrap_err();
        hosts
            .check(&ask("http://evil.example/", &["localhost"]))
            .unwrap_err();
        hosts.check(&ask("http://localhost/", &[])).unwrap();
    }

    #[test]
    fn accepts_the_address_it_listens_on() {
        for (listen, own) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("127.0.41.7:8499", "127.0.41.7:8499"),
            ("127.255.255.254:80", "127.255.255.254"),
            ("[::1]:80", "[::1]:80"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("[2001:db8::7]:80", "[2001:DB8::7]:80"),
        ] {
            let config = Config {
                listen: listen.parse().unwrap(),
                hosts: vec!["db.example".into()],
                ..Config::default()
            };
            let hosts = Hosts::new(&config);
            for host in [own, "localhost", "127.0.0.1", "[::1]", "db.example"] {
                hosts
                    .check(&ask("/", &[host]))
                    .unwrap_or_else(|_| panic!("{listen}: {host}"));
            }
            for other in ["127.0.0.2", "192.0.2.8", "0.0.0.0", "evil.example"] {
                hosts.check(&ask("/", &[other])).unwrap_err();
            }
        }
    }

    #[test]
    fn elsewhere_any_unless_configured() {
        let mut config = Config {
            listen: "0.0.0.0:80".parse().unwrap(),
            ..Config::default()
        };
        Hosts::new(&config).check(&ask("/", &["any.example"])).unwrap();
        config.hosts = vec!["db.example".into()];
        Hosts::new(&config)
            .check(&ask("/", &["any.example"]))
            .unwrap_err();
        Hosts::new(&config).check(&ask("/", &["db.example"])).unwrap();
    }
}
