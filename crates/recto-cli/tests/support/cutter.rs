//! Proxy before a server that cuts connections, to test how clients continue.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Proxy before a server. It cuts each connection after a number of response bytes.
pub(crate) struct Cutter {
    pub(crate) url: String,
    connections: Arc<AtomicUsize>,
}

impl Cutter {
    /// Starts a proxy. The elements of `limits` are the numbers of response bytes after which it
    /// cuts the connections, in order. It rejects further connections.
    pub(crate) fn new(server: &str, limits: Vec<usize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let (server, counted) = (server.to_owned(), Arc::clone(&connections));
        std::thread::spawn(move || {
            for limit in limits {
                let Ok((client, _)) = listener.accept() else {
                    return;
                };
                counted.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(&server).unwrap();
                std::thread::spawn(move || pass(client, server, limit));
            }
        });
        Self { url, connections }
    }

    /// Returns the number of connections that the proxy has accepted.
    pub(crate) fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Forwards every connection to `server` without cutting it, until the process ends.
pub(crate) fn forward(listener: TcpListener, server: &str) {
    let server = server.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else {
                return;
            };
            std::thread::spawn(move || pass(client, server, usize::MAX));
        }
    });
}

fn pass(client: TcpStream, server: TcpStream, limit: usize) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
    let (mut server, mut client, mut left) = (server, client, limit);
    let mut buffer = [0_u8; 4_096];
    while left > 0 {
        let Ok(read @ 1..) = server.read(&mut buffer) else {
            break;
        };
        let taken = read.min(left);
        if client.write_all(&buffer[..taken]).is_err() {
            break;
        }
        left -= taken;
    }
    if left == 0 {
        // Give the client time to read the forwarded bytes before the connection is cut.
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}
