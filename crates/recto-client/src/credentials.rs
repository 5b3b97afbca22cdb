//! Access token of a client, and the servers to which it may be sent.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use hyper::header::HeaderValue;
use recto_api::address::HttpAddress;
use recto_api::{Error, ErrorKind, Result};

/// Maximum size of a file with a token, in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 4 << 10;

/// Returns the value of the header `Authorization`, or `None` if the address has no token.
///
/// # Errors
/// - The file of the token cannot be read.
/// - The token is malformed.
/// - The token would be sent to another machine without TLS.
///
/// No error contains the token.
pub(crate) fn authorization(address: &HttpAddress) -> Result<Option<HeaderValue>> {
    let token = match (&address.token, &address.token_file) {
        (Some(token), _) => token.reveal().trim().to_owned(),
        (None, Some(file)) => read(file)?,
        (None, None) => return Ok(None),
    };
    // Accept only printable ASCII, which includes all characters of RFC 6750. A line break in the
    // token would start another header.
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token {
        return Err(
            Error::new(ErrorKind::InvalidArgument, "the access token is malformed")
                .with_hint("use the token that `recto token create` printed: one word"),
        );
    }
    if !address.tls && !address.is_loopback() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("the access token would go to {address} without encryption"),
        )
        .with_hint("use https://, or unset RECTO_TOKEN and token_file"));
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Error::new(ErrorKind::InvalidArgument, "the access token is malformed"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn read(path: &Path) -> Result<String> {
    let failed = |error: std::io::Error| {
        let kind = if error.kind() == std::io::ErrorKind::NotFound {
            ErrorKind::NotFound
        } else {
            ErrorKind::Io
        };
        Error::new(
            kind,
            format!("cannot read the token file {}: {error}", path.display()),
        )
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_TOKEN_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn with_token(tls: bool, host: &str, token: &str) -> HttpAddress {
        let mut address = HttpAddress::new(tls, host, 8080);
        address.set("token", token).unwrap();
        address
    }

    #[test]
    fn a_token_goes_to_this_machine_or_by_tls() {
        for (tls, host) in [
            (false, "127.0.0.1"),
            (false, "localhost"),
            (true, "db.example.org"),
        ] {
            let value = authorization(&with_token(tls, host, "abc\n")).unwrap().unwrap();
            assert_eq!(value.to_str().unwrap(), "Bearer abc");
            assert!(!format!("{value:?}").contains("abc"));
        }
        let error = authorization(&with_token(false, "db.example.org", "xyzzy")).unwrap_err();
        assert!(error.to_string().contains("without encryption"));
        assert!(!format!("{error:?}").contains("xyzzy"));
    }

    #[test]
    fn a_token_is_one_word() {
        for token in ["", " ", "xyzzy plugh", "xyzzy\r\nHost: h", "xyzzyé"] {
            let error = authorization(&with_token(true, "h", token)).unwrap_err();
            assert!(!format!("{error:?}").contains("xyzzy"));
        }
        assert!(
            authorization(&HttpAddress::new(false, "h", 80))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_token_is_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let mut address = HttpAddress::new(false, "localhost", 8080);
        address.token_file = Some(file.clone());
        assert_eq!(authorization(&address).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(&file, "abc\n").unwrap();
        assert!(authorization(&address).unwrap().is_some());
        std::fs::write(&file, "").unwrap();
        assert!(authorization(&address).is_err());
    }
}
