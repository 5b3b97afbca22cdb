//! Tests of a cluster that needs credentials. A simulated server implements only the part of the
//! protocol that requests and rejects credentials.

use std::time::Duration;

use recto_cassandra::{CassandraConfig, CassandraStore};
use recto_model::Environment;
use recto_store::{StoreError, StoreErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const HEADER_BYTES: usize = 9;
const ERROR: u8 = 0x00;
const AUTHENTICATE: u8 = 0x03;
const OPTIONS: u8 = 0x05;
const SUPPORTED: u8 = 0x06;
const STARTUP: u8 = 0x01;
const AUTH_RESPONSE: u8 = 0x0f;
/// Code of the error `Bad credentials` in the protocol.
const BAD_CREDENTIALS: i32 = 0x0100;

fn string(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

/// Serves one connection, as a node that rejects all credentials, until the client closes the
/// connection.
async fn serve(mut stream: TcpStream) {
    let mut header = [0; HEADER_BYTES];
    while stream.read_exact(&mut header).await.is_ok() {
        let length = u32::from_be_bytes(header[5..].try_into().unwrap()) as usize;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let (opcode, body) = match header[4] {
            OPTIONS => (SUPPORTED, vec![0, 0]),
            STARTUP => (
                AUTHENTICATE,
                string("org.apache.cassandra.auth.PasswordAuthenticator"),
            ),
            AUTH_RESPONSE => (
                ERROR,
                [
                    BAD_CREDENTIALS.to_be_bytes().to_vec(),
                    string("Provided username me and/or password are incorrect"),
                ]
                .concat(),
            ),
            other => panic!("the client sent the request {other:#x} before it was let in"),
        };
        let mut answer = vec![0x84, 0, header[2], header[3], opcode];
        answer.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        answer.extend_from_slice(&body);
        stream.write_all(&answer).await.unwrap();
    }
}

/// Connects to the simulated server with these credentials, and returns the error.
async fn refused(credentials: Option<(&str, &str)>) -> StoreError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    let mut config = CassandraConfig::new([address], "shop");
    config.connect_timeout = Duration::from_secs(5);
    config.username = credentials.map(|(username, _)| username.to_owned());
    config.password = credentials.map(|(_, password)| password.to_owned());
    CassandraStore::connect(config, Environment::system())
        .await
        .unwrap_err()
}

#[tokio::test]
async fn wrong_credentials_are_told_apart_and_not_told() {
    let error = refused(Some(("me", "hunter2"))).await;
    assert_eq!(error.kind(), StoreErrorKind::Unauthorized, "{error:?}");
    assert!(error.hint().is_some());
    assert!(!format!("{error:?} {error}").contains("hunter2"));
}

#[tokio::test]
async fn missing_credentials_are_asked_for() {
    let error = refused(None).await;
    assert_eq!(error.kind(), StoreErrorKind::Unauthorized, "{error:?}");
    assert!(error.to_string().contains("user name"), "{error}");
}
