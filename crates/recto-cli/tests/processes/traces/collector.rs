//! Collector of traces for the tests. It accepts requests on this machine, and answers with a chosen HTTP
//! status.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use super::message::{Span, spans};

/// Status that stands for a collector which never answers.
pub(crate) const SILENT: u16 = 0;

/// Request with spans that the collector received.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Collector of trace spans that listens until the test process ends.
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    status: Arc<AtomicU16>,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
}

impl Collector {
    /// Starts a collector that answers each request with the HTTP status `status`.
    pub(crate) fn answering(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            status: Arc::new(AtomicU16::new(status)),
            deliveries: Arc::default(),
        };
        let (status, deliveries) = (Arc::clone(&collector.status), Arc::clone(&collector.deliveries));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (status, deliveries) = (Arc::clone(&status), Arc::clone(&deliveries));
                std::thread::spawn(move || serve(stream.unwrap(), &status, &deliveries));
            }
        });
        collector
    }

    pub(crate) fn answer_from_now_on(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap().clone()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.deliveries()
            .iter()
            .flat_map(|one| spans(&one.body))
            .collect()
    }
}

fn serve(mut stream: TcpStream, status: &AtomicU16, deliveries: &Mutex<Vec<Delivery>>) {
    while let Some(delivery) = read(&mut stream) {
        deliveries.lock().unwrap().push(delivery);
        match status.load(Ordering::SeqCst) {
            SILENT => {}
            status => {
                let answer = format!("HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    }
}

/// Reads the next request of a connection. Returns `None` if the connection was closed.
fn read(stream: &mut TcpStream) -> Option<Delivery> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse().unwrap())
    });
    let mut body = vec![0; length.unwrap()];
    stream.read_exact(&mut body).unwrap();
    Some(Delivery { head, body })
}
