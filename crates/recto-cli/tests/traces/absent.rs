//! A build without traces.

use super::place::Place;

const SAID: &str = "built without the cargo feature `opentelemetry`";

#[test]
fn a_build_without_traces_says_so_once_where_they_are_asked_for() {
    let place = Place::new();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@127.0.0.1:9");
    let served = place.serve(&[endpoint]);
    served.page("", "");
    let log = served.stop();
    assert_eq!(log.matches(SAID).count(), 1, "{log}");
    assert!(!log.contains("secret"), "{log}");
    for variables in [&[][..], &[endpoint, ("OTEL_SDK_DISABLED", "true")]] {
        let log = place.serve(variables).stop();
        assert!(!log.contains(SAID), "{log}");
    }
}
