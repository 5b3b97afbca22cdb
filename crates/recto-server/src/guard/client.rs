//! Credentials and address of the client of a request.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Credentials that the header `Authorization` of a request contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Credentials<'a> {
    None,
    /// Bearer token, which only programs send. A browser never adds it on its own.
    Bearer(&'a str),
    /// Password from the browser's dialog. The browser sends it with every request, also for other
    /// sites' pages.
    Password(String),
}

/// Returns the credentials of a request. Ignores several headers, because it would be unclear which
/// is valid.
pub(crate) fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Credentials::None;
    };
    let Some((scheme, rest)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
        return Credentials::None;
    };
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Credentials::Bearer(rest);
    }
    if scheme.eq_ignore_ascii_case("basic")
        && let Ok(bytes) = STANDARD.decode(rest)
        && let Ok(text) = String::from_utf8(bytes)
        && let Some((_, password)) = text.split_once(':')
    {
        return Credentials::Password(password.to_owned());
    }
    Credentials::None
}

/// Returns the address of the client. Behind a proxy, it is the last address in `X-Forwarded-For`,
/// which the proxy added. Clients can forge the addresses before it.
pub(crate) fn address(headers: &HeaderMap, peer: IpAddr, behind_proxy: bool) -> IpAddr {
    if !behind_proxy {
        return peer;
    }
    let last = headers.get_all("x-forwarded-for").iter().next_back();
    let last = last.and_then(|value| value.to_str().ok()?.rsplit(',').next());
    last.and_then(|text| text.trim().parse().ok()).unwrap_or(peer)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn tokens_are_found_in_both_schemes() {
        for (value, expected) in [
            ("Bearer abc", Credentials::Bearer("abc")),
            ("bearer  abc ", Credentials::Bearer("abc")),
            ("Basic YTpiOmM=", Credentials::Password("b:c".into())),
            ("Basic ???", Credentials::None),
            ("Digest abc", Credentials::None),
            ("abc", Credentials::None),
        ] {
            assert_eq!(
                credentials(&headers(&[("authorization", value)])),
                expected,
                "{value}"
            );
        }
        let two = headers(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]);
        assert_eq!(credentials(&two), Credentials::None);
    }

    #[test]
    fn only_a_proxy_is_believed_and_only_its_own_entry() {
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        let forwarded = headers(&[
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "2.2.2.2, 3.3.3.3"),
        ]);
        assert_eq!(address(&forwarded, peer, false), peer);
        assert_eq!(address(&forwarded, peer, true).to_string(), "3.3.3.3");
        assert_eq!(
            address(&headers(&[("x-forwarded-for", "nobody")]), peer, true),
            peer
        );
    }
}
