//! Tests of `recto serve` with a collector of traces that is unreachable or fails.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::collector::{Collector, SILENT};
use super::place::Place;

const REQUESTS: u32 = 200;

/// Maximum time until a server has ended, if it does not wait for the export of its spans.
const FLUSHED: Duration = Duration::from_secs(8);

/// Requests far more pages than spans may wait for the export. Checks that the server answers all
/// requests without delay. Returns its log.
fn answers_all(place: &Place, endpoint: &str) -> String {
    let served = place.serve(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "16"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ]);
    let mut longest = Duration::ZERO;
    for _ in 0..REQUESTS {
        let began = Instant::now();
        served.page("", "");
        longest = longest.max(began.elapsed());
    }
    // An export may take ten seconds. A request that waited for the collector would take as long.
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    let began = Instant::now();
    let log = served.stop();
    assert!(began.elapsed() < FLUSHED, "{:?}: {log}", began.elapsed());
    assert!(log.contains("spans were lost"), "{log}");
    log
}

#[test]
fn a_collector_that_is_not_there_harms_nobody() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("http://user:secret@{address}");
    let log = answers_all(&Place::new(), &endpoint);
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn a_collector_that_does_not_answer_harms_nobody() {
    let log = answers_all(&Place::new(), &Collector::answering(SILENT).endpoint);
    assert_eq!(log.matches("spans are dropped").count(), 1, "{log}");
}

#[test]
fn reports_collector_errors_and_recovery_once() {
    let (place, collector) = (Place::new(), Collector::answering(400));
    let served = place.serve(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ]);
    let ask_until = |deliveries: usize| {
        let began = Instant::now();
        while collector.deliveries().len() < deliveries {
            assert!(began.elapsed() < Duration::from_secs(20), "no more is sent");
            served.page("", "");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    ask_until(3);
    collector.answer_from_now_on(200);
    ask_until(collector.deliveries().len() + 2);
    let log = served.stop();
    for line in [
        "traces cannot be exported",
        "status code: 400",
        "traces are exported again",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
}

#[test]
fn trusts_the_configured_certificate() {
    let place = Place::new();
    let name = |file: &str| place.folder().join(file).to_str().unwrap().to_owned();
    let (certificate, key) = (name("cert.pem"), name("key.pem"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    // Use an HTTPS server as the collector. Its error 404 shows that the exporter trusts the
    // certificate.
    let other = Place::new();
    let secure = other.serve_with(&["--tls-certificate", &certificate, "--tls-key", &key], &[]);
    let port = secure.address.rsplit(':').next().unwrap();
    let endpoint = (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        &*format!("https://localhost:{port}"),
    );
    let trusted = ("OTEL_EXPORTER_OTLP_CERTIFICATE", &*certificate);
    let served = place.serve(&[endpoint, trusted]);
    served.page("", "");
    let log = served.stop();
    assert!(log.contains("status code: 404"), "{log}");
    let log = place.serve(&[endpoint, (trusted.0, "absent.pem")]);
    log.page("", "");
    let log = log.stop();
    assert!(
        log.contains("traces are not exported") && log.contains("absent.pem"),
        "{log}"
    );
}
