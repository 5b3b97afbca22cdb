//! Tests of the content of the traces that `recto serve` exports.

use super::collector::Collector;
use super::message::{ERROR, INTERNAL, SERVER, Span};
use super::place::{Place, TENANT};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn has(span: &Span, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        let found = span.attributes.get(*name).map(String::as_str);
        assert_eq!(found, Some(*value), "{name} of {span:?}");
    }
}

#[test]
fn requests_and_pages_have_spans_below_the_caller() {
    let (place, collector) = (Place::new(), Collector::answering(200));
    let served = place.serve(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=opensesame"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ("OTEL_SERVICE_NAME", "orders"),
    ]);
    let parent = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\ntracestate: vendor=theirs\r\n");
    served.page("", &format!("{parent}X-Request-Id: one-of-ours\r\n"));
    let log = served.stop();
    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "{spans:?}");
    let request = named(&spans, "GET /v1/collections/{collection}/records")[0];
    assert_eq!(
        (&*request.trace, &*request.parent, request.kind),
        (TRACE, CALLER, SERVER)
    );
    assert_eq!((&*request.trace_state, request.status), ("vendor=theirs", 0));
    has(
        request,
        &[
            ("http.request.method", "GET"),
            ("http.route", "/v1/collections/{collection}/records"),
            ("http.response.status_code", "200"),
            ("url.scheme", "http"),
            ("network.protocol.version", "1.1"),
            ("recto.request_id", "one-of-ours"),
        ],
    );
    assert!(!request.attributes.contains_key("error.type"));
    let page = named(&spans, "page")[0];
    assert_eq!(
        (&*page.trace, &page.parent, page.kind),
        (TRACE, &request.id, INTERNAL)
    );
    assert!(0 < page.nanos && page.nanos <= request.nanos);
    has(
        page,
        &[
            ("recto.collection", "orders"),
            ("recto.plan.shape", "scan"),
            ("recto.rows.read", "5"),
            ("recto.rows.returned", "4"),
            ("recto.round_trips", "0"),
        ],
    );
    let who = [
        ("service.name", "orders"),
        ("deployment.environment.name", "test"),
    ];
    for (name, value) in who {
        assert_eq!(page.resource[name], value);
    }
    let delivery = &collector.deliveries()[0];
    assert!(
        delivery.head.starts_with("POST /v1/traces HTTP/1.1\r\n"),
        "{}",
        delivery.head
    );
    assert!(
        delivery.head.contains("x-api-key: opensesame"),
        "{}",
        delivery.head
    );
    assert!(
        delivery.head.contains("application/x-protobuf"),
        "{}",
        delivery.head
    );
    assert!(
        log.contains("spans exported") && !log.contains("opensesame"),
        "{log}"
    );
}

#[test]
fn spans_hold_no_values() {
    let (place, collector) = (Place::new(), Collector::answering(200));
    let served = place.serve(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint)]);
    let page = served.page("", "");
    let json = page.split_once("\r\n\r\n").unwrap().1;
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let cursor = json["next_page_token"].as_str().unwrap();
    served.page(&format!("&page_token={cursor}"), "");
    let record = format!("/v1/collections/orders/records/{TENANT},7");
    let forged =
        format!("/v1/collections/orders/records?filter=tenant%3D%22{TENANT}%22&page_token=confidential");
    for (method, path, status) in [
        ("GET", record.as_str(), 200),
        ("DELETE", &record, 204),
        ("GET", &record, 404),
        ("GET", "/v1/collections/absent-confidential/records", 404),
        (
            "GET",
            "/v1/collections/orders/records?filter=confidential%20%3D%201",
            400,
        ),
        ("GET", &forged, 400),
        ("GET", "/confidential", 404),
        ("CONFIDENTIAL", &record, 405),
    ] {
        let headers = "Authorization: Bearer confidential\r\nReferer: confidential\r\n";
        let answer = served.ask(method, path, headers);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{method} {path}: {answer}"
        );
    }
    served.ask("GET", "/healthz", "");
    served.ask("GET", "/metrics", "");
    served.stop();
    for delivery in collector.deliveries() {
        let sent = String::from_utf8_lossy(&delivery.body);
        for value in ["onfidential", "CONFIDENTIAL", "kept quiet", cursor, &cursor[..20]] {
            assert!(!sent.contains(value), "{value} was sent");
        }
    }
    let spans = collector.spans();
    let served = spans.iter().filter(|span| span.kind == SERVER).count();
    assert_eq!(served, 10, "{spans:?}");
    for name in [
        "GET",
        "HTTP /v1/collections/{collection}/records/{key}",
        "DELETE /v1/collections/{collection}/records/{key}",
    ] {
        assert!(!named(&spans, name).is_empty(), "{name}: {spans:?}");
    }
    let wrong = named(&spans, "page").into_iter();
    let wrong = wrong.filter_map(|span| span.attributes.get("error.type"));
    let mut wrong: Vec<_> = wrong.map(String::as_str).collect();
    wrong.sort_unstable();
    assert!(
        wrong.contains(&"invalid_cursor") && wrong.contains(&"invalid_query"),
        "{wrong:?}"
    );
    assert!(
        spans.iter().all(|span| span.status != ERROR),
        "mistakes of clients are no errors"
    );
}

#[test]
fn only_what_is_sampled_is_sent() {
    let place = Place::new();
    let asked = |sampler: &[(&str, &str)], flags: &str| {
        let collector = Collector::answering(200);
        let endpoint = format!("{}/v1/traces", collector.endpoint);
        let mut variables = vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint.as_str())];
        variables.extend(sampler);
        let served = place.serve(&variables);
        served.page("", &format!("traceparent: 00-{TRACE}-{CALLER}-{flags}\r\n"));
        served.stop();
        collector.deliveries()
    };
    let off = ("OTEL_TRACES_SAMPLER", "always_off");
    let by_parent = ("OTEL_TRACES_SAMPLER", "parentbased_always_off");
    assert!(asked(&[], "00").is_empty());
    assert!(asked(&[off], "01").is_empty());
    assert!(asked(&[("OTEL_SDK_DISABLED", "true")], "01").is_empty());
    assert!(asked(&[by_parent, ("OTEL_PROPAGATORS", "none")], "01").is_empty());
    let gzip = ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
    let sent = asked(&[by_parent, gzip], "01");
    assert!(sent[0].head.contains("gzip") && sent[0].body.starts_with(&[0x1f, 0x8b]));
}

#[test]
fn parents_that_are_not_right_are_none() {
    let (place, collector) = (Place::new(), Collector::answering(200));
    let served = place.serve(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint)]);
    let right = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    for wrong in [
        format!("{right}{right}"),
        format!("traceparent: 00-{}-{CALLER}-01\r\n", "0".repeat(32)),
        format!("traceparent: ff-{TRACE}-{CALLER}-01\r\n"),
        format!("traceparent: {}\r\n", "-".repeat(1000)),
        "traceparent: \u{e9}\r\n".to_owned(),
    ] {
        served.page("", &wrong);
    }
    served.page("", &format!("{right}tracestate: vendor={}\r\n", "x".repeat(600)));
    served.stop();
    let spans = collector.spans();
    let (theirs, ours): (Vec<_>, Vec<_>) = spans.iter().partition(|span| span.trace == TRACE);
    assert_eq!((theirs.len(), ours.len()), (2, 10), "{spans:?}");
    assert!(theirs.iter().all(|span| span.trace_state.is_empty()));
    let roots = ours.iter().filter(|span| span.parent.is_empty());
    assert_eq!(roots.count(), 5);
}

#[test]
fn nothing_is_sent_where_no_collector_is_named() {
    let place = Place::new();
    let served = place.serve(&[("OTEL_SERVICE_NAME", "orders")]);
    served.page("", "");
    let log = served.stop();
    assert!(!log.contains("traces") && !log.contains("spans"), "{log}");
}
