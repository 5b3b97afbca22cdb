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

/// Returns whether a connection was closed without a reason, after the handshake and before the
/// login. A TLS 1.3 server that rejects the client's certificate reports this when the client
/// already considers the handshake complete. Data that the client sends in the meantime can end the
/// connection before the client reads the alert.
pub(crate) fn was_cut(error: &NewSessionError) -> bool {
    let Some(connection @ ConnectionError::ConnectionSetupRequestError(setup)) = connection_error(error)
    else {
        return false;
    };
    let is_broken = matches!(setup.error, ConnectionSetupRequestErrorKind::BrokenConnection(_));
    is_broken && tls_cause(connection).is_none()
}

/// Converts a failure to connect, which is the failure of the last host that was tried. `alert` is
/// the TLS alert of a closed connection, if it was requested again.
pub(crate) fn failed(
    error: NewSessionError,
    alert: Option<&io::Error>,
    config: &CassandraConfig,
) -> StoreError {
    let hosts = config.hosts.join(",");
    let unreachable = |message: String| StoreError::new(StoreErrorKind::Unavailable, message);
    match &error {
        NewSessionError::FailedToResolveAnyHostname(_) => {
            unreachable(format!("no address is known for Cassandra at {hosts}"))
                .with_hint("see whether the host is spelt rightly")
        }
        _ => match (connection_error(&error), alert.and_then(tls_error)) {
            (_, Some(alert)) => of_tls(alert, &hosts, config),
            (Some(connection), None) => of_connection(connection, &hosts, config),
            (None, None) => unreachable(format!("connecting to Cassandra at {hosts} failed"))
                .with_hint("see whether Cassandra runs there and listens on this port"),
        },
    }
    .with_source(error)
}

/// Returns the reason why the last connection failed.
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
                    format!("Cassandra at {hosts} refused the user: {message}"),
                )
                .with_hint("see user name and password");
            }
            ConnectionSetupRequestErrorKind::MissingAuthentication => {
                return StoreError::new(
                    StoreErrorKind::Unauthorized,
                    format!("Cassandra at {hosts} wants a user name and a password"),
                )
                .with_hint(
                    "give username and password: in the environment as RECTO_CASSANDRA_USERNAME and \
                     RECTO_CASSANDRA_PASSWORD, or in the file that --store-config names",
                );
            }
            _ => {}
        }
    }
    let hint = match (&config.tls, error) {
        (_, ConnectionError::ConnectTimeout | ConnectionError::IoError(_)) => {
            "see whether Cassandra runs there and listens on this port"
        }
        (None, _) => {
            "see whether what listens there is Cassandra, and whether it wants TLS (`tls=true` and `tls_ca` in \
             the address)"
        }
        (Some(tls), _) if tls.client.is_none() => {
            "see whether what listens there is Cassandra, and whether it wants a client's certificate \
             (`tls_certificate` and `tls_key` in the address)"
        }
        (Some(_), _) => "see whether what listens there is Cassandra, and what its log says",
    };
    StoreError::new(
        StoreErrorKind::Unavailable,
        format!("Cassandra at {hosts} cannot be reached: {error}"),
    )
    .with_hint(hint)
}

/// Returns the TLS error, if TLS ended the connection. Up to TLS 1.2 a server rejects the client's
/// certificate during the handshake; from TLS 1.3 on, with its first response.
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
            format!("Cassandra at {hosts} wants a client's certificate"),
            "give this client's certificate and key: `tls_certificate` and `tls_key` in the address",
        ),
        Tls::AlertReceived(alert) if is_about_certificate(*alert, shows_certificate) => (
            Kind::Unauthorized,
            format!("Cassandra at {hosts} does not take this client's certificate: {alert:?}"),
            "see whether `tls_certificate` and `tls_key` are given, and signed by an authority that the nodes \
             trust (their truststore)",
        ),
        Tls::InvalidMessage(_) => (
            Kind::Unavailable,
            format!("what listens at {hosts} does not speak TLS"),
            "leave out the address's tls parameters, or let the nodes speak TLS (client_encryption_options)",
        ),
        other => (
            Kind::Unavailable,
            format!("TLS with Cassandra at {hosts} failed: {other}"),
            "see which versions and ciphers the nodes' client_encryption_options allow; their log says more",
        ),
    };
    StoreError::new(kind, message).with_hint(hint)
}

/// Returns whether an alert rejects the client's certificate. For a certificate that it does not
/// trust, Cassandra itself sends `internal_error`.
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
            format!("does not name the address it is reached by: {reason}"),
            "let the nodes' certificates name their IP addresses; or, where the authority signs for this cluster \
             only, set `tls_check_server_name=false`",
        ),
        CertificateError::UnknownIssuer => (
            "is not signed by an authority that is trusted here".to_owned(),
            "see whether the file in `tls_ca` holds the authority that signed the nodes' certificates, with any \
             in between",
        ),
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => (
            format!("is not valid now: {reason}"),
            "renew it (`nodetool reloadssl` takes it without a restart), and see whether this machine's clock is \
             right",
        ),
        _ => (
            format!("is not taken: {reason}"),
            "see the nodes' certificates, and whether the file in `tls_ca` holds the authority that signed them",
        ),
    }
}
