//! Reasons why a session could not be opened, as errors of the store: the network, TLS, or the
//! login.

use std::io;

use recto_store::{StoreError, StoreErrorKind};
use rustls::{AlertDescription, CertificateError};
use scylla::errors::{
    BrokenConnectionError, BrokenConnectionErrorKind, ConnectionError, ConnectionPoolError,
    ConnectionSetupRequestErrorKind, DbError, FrameHeaderParseError, MetadataError, NewSessionError,
};

use crate::config::CassandraConfig;

/// Returns whether a connection was closed without a TLS alert, after the handshake and before the
/// login. A TLS 1.3 server rejects the client's certificate when the client already considers the
/// handshake complete. If the client sends data in the meantime, the connection can end before the
/// client reads the alert.
pub(crate) fn was_cut(error: &NewSessionError) -> bool {
    let Some(connection @ ConnectionError::ConnectionSetupRequestError(setup)) = connection_error(error)
    else {
        return false;
    };
    let is_broken = matches!(setup.error, ConnectionSetupRequestErrorKind::BrokenConnection(_));
    is_broken && tls_cause(connection).is_none()
}

/// Returns the store's error for a failed connection. `error` is the failure of the last host
/// that was tried. `alert` is the TLS alert that a second connection to the hosts received, if the
/// first was closed without an alert.
pub(crate) fn failed(
    error: NewSessionError,
    alert: Option<&io::Error>,
    config: &CassandraConfig,
) -> StoreError {
    let hosts = config.hosts.join(",");
    let unreachable = |message: String| StoreError::new(StoreErrorKind::Unavailable, message);
    match &error {
        NewSessionError::FailedToResolveAnyHostname(_) => {
            unreachable(format!("the host name of Cassandra at {hosts} has no address"))
                .with_hint("check the spelling of the host")
        }
        _ => match (connection_error(&error), alert.and_then(tls_error)) {
            (_, Some(alert)) => of_tls(alert, &hosts, config),
            (Some(connection), None) => of_connection(connection, &hosts, config),
            (None, None) => unreachable(format!("connecting to Cassandra at {hosts} failed"))
                .with_hint("check that Cassandra runs there and listens on this port"),
        },
    }
    .with_source(error)
}

/// Returns the error of the last connection that failed, if there is one.
fn connection_error(error: &NewSessionError) -> Option<&ConnectionError> {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error,
        })) => Some(last_connection_error),
        _ => None,
    }
}

fn of_connection(error: &ConnectionError, hosts: &str, config: &CassandraConfig) -> StoreError {
    if let Some(tls) = tls_cause(error) {
        return of_tls(tls, hosts, config);
    }
    if let ConnectionError::ConnectionSetupRequestError(setup) = error {
        match &setup.error {
            ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, message) => {
                return StoreError::new(
                    StoreErrorKind::Unauthorized,
                    format!("Cassandra at {hosts} rejected the user: {message}"),
                )
                .with_hint("check the user name and the password");
            }
            ConnectionSetupRequestErrorKind::MissingAuthentication => {
                return StoreError::new(
                    StoreErrorKind::Unauthorized,
                    format!("Cassandra at {hosts} requires a user name and a password"),
                )
                .with_hint(
                    "set RECTO_CASSANDRA_USERNAME and RECTO_CASSANDRA_PASSWORD in the environment, or both \
                     values in the file that --store-config names",
                );
            }
            _ => {}
        }
    }
    let hint = match (&config.tls, error) {
        (_, ConnectionError::ConnectTimeout | ConnectionError::IoError(_)) => {
            "check that Cassandra runs there and listens on this port"
        }
        (None, _) => {
            "check that the program at this address is Cassandra, and whether it requires TLS (`tls=true` \
             and `tls_ca` in the address)"
        }
        (Some(tls), _) if tls.client.is_none() => {
            "check that the program at this address is Cassandra, and whether it requires a client \
             certificate (`tls_certificate` and `tls_key` in the address)"
        }
        (Some(_), _) => "check that the program at this address is Cassandra, and read its log",
    };
    StoreError::new(
        StoreErrorKind::Unavailable,
        format!("Cassandra at {hosts} cannot be reached: {error}"),
    )
    .with_hint(hint)
}

/// Returns the TLS error, if TLS ended the connection. A server rejects the client's certificate
/// during the handshake up to TLS 1.2, and with its first response from TLS 1.3 on.
fn tls_cause(error: &ConnectionError) -> Option<&rustls::Error> {
    let failed = match error {
        ConnectionError::IoError(error) => error.as_ref(),
        ConnectionError::BrokenConnection(broken) => io_cause(broken)?,
        ConnectionError::ConnectionSetupRequestError(setup) => match &setup.error {
            ConnectionSetupRequestErrorKind::BrokenConnection(broken) => io_cause(broken)?,
            _ => return None,
        },
        _ => return None,
    };
    tls_error(failed)
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn io_cause(broken: &BrokenConnectionError) -> Option<&io::Error> {
    match broken.downcast_ref::<BrokenConnectionErrorKind>()? {
        BrokenConnectionErrorKind::FrameHeaderParseError(
            FrameHeaderParseError::HeaderIoError(error) | FrameHeaderParseError::BodyChunkIoError(_, error),
        )
        | BrokenConnectionErrorKind::WriteError(error) => Some(error),
        _ => None,
    }
}

fn of_tls(error: &rustls::Error, hosts: &str, config: &CassandraConfig) -> StoreError {
    use StoreErrorKind as Kind;
    use rustls::Error as Tls;
    let shows_certificate = config.tls.as_ref().is_some_and(|tls| tls.client.is_some());
    let (kind, message, hint) = match error {
        Tls::InvalidCertificate(reason) => {
            let (what, hint) = of_certificate(reason);
            (
                Kind::Invalid,
                format!("the certificate of Cassandra at {hosts} {what}"),
                hint,
            )
        }
        Tls::AlertReceived(AlertDescription::CertificateRequired) => (
            Kind::Unauthorized,
            format!("Cassandra at {hosts} requires a client certificate"),
            "set the certificate and key of this client: `tls_certificate` and `tls_key` in the address",
        ),
        Tls::AlertReceived(alert) if is_about_certificate(*alert, shows_certificate) => (
            Kind::Unauthorized,
            format!("Cassandra at {hosts} rejected the client certificate: {alert:?}"),
            "check that `tls_certificate` and `tls_key` are set, and that an authority in the truststore of \
             the nodes signed the certificate",
        ),
        Tls::InvalidMessage(_) => (
            Kind::Unavailable,
            format!("the program at {hosts} does not speak TLS"),
            "remove the tls parameters from the address, or enable TLS on the nodes \
             (client_encryption_options)",
        ),
        other => (
            Kind::Unavailable,
            format!("TLS with Cassandra at {hosts} failed: {other}"),
            "check the TLS versions and ciphers in client_encryption_options of the nodes, and read their \
             logs",
        ),
    };
    StoreError::new(kind, message).with_hint(hint)
}

/// Returns whether a TLS alert rejects the client's certificate. Cassandra itself sends
/// `internal_error` for a certificate that it does not trust.
fn is_about_certificate(alert: AlertDescription, shows_certificate: bool) -> bool {
    if matches!(
        alert,
        AlertDescription::InternalError | AlertDescription::HandshakeFailure
    ) {
        return shows_certificate;
    }
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

fn of_certificate(reason: &CertificateError) -> (String, &'static str) {
    match reason {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            format!("does not name the address of the node: {reason}"),
            "use node certificates that name their IP addresses; if the authority signs for this cluster \
             only, you can set `tls_check_server_name=false`",
        ),
        CertificateError::UnknownIssuer => (
            "is not signed by a trusted authority".to_owned(),
            "check that the file in `tls_ca` has the authority that signed the nodes' certificates, and all \
             intermediate authorities",
        ),
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => (
            format!("is not valid now: {reason}"),
            "renew the certificate (`nodetool reloadssl` loads it without a restart), and check the clock of \
             this machine",
        ),
        _ => (
            format!("is rejected: {reason}"),
            "check the nodes' certificates, and check that the file in `tls_ca` has the authority that \
             signed them",
        ),
    }
}
