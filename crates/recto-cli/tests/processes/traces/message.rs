//! Reader of the protobuf messages that a collector of traces receives. It does not use the
//! exporter's library, so that the tests compare the export with the format itself.
//!
//! Field numbers are from `opentelemetry/proto/trace/v1/trace.proto` and related files.

use std::collections::BTreeMap;

/// Value of a span's kind in `OpenTelemetry`'s format: a span of a server.
pub(crate) const SERVER: u64 = 2;
/// Value of a span's kind in `OpenTelemetry`'s format: an internal span.
pub(crate) const INTERNAL: u64 = 1;
/// Value of a span's status in `OpenTelemetry`'s format: an error.
pub(crate) const ERROR: u64 = 2;

/// Decoded span of a trace, with the attributes of the process that sent it.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) trace_state: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) nanos: u64,
    pub(crate) status: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) resource: BTreeMap<String, String>,
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Returns the fields of a protobuf message, each as its number and value, in order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes);
                Field::Bytes(take(&mut bytes, usize::try_from(length).unwrap()))
            }
            5 => Field::Number(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap()).into()),
            other => panic!("no such wire type: {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

fn messages(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let parts = fields(bytes).into_iter().filter(|(one, _)| *one == number);
    parts
        .map(|(_, field)| match field {
            Field::Bytes(bytes) => bytes,
            Field::Number(_) => panic!("field {number} is a number"),
        })
        .collect()
}

fn text(bytes: &[u8], number: u64) -> String {
    let parts = messages(bytes, number);
    parts
        .first()
        .map_or_else(String::new, |one| String::from_utf8(one.to_vec()).unwrap())
}

fn hex(bytes: &[u8], number: u64) -> String {
    let parts = messages(bytes, number);
    parts.concat().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(bytes: &[u8], number: u64) -> u64 {
    let found = fields(bytes).into_iter().find(|(one, _)| *one == number);
    match found {
        Some((_, Field::Number(value))) => value,
        _ => 0,
    }
}

/// Returns the attributes in the protobuf fields with the number `at`, as keys and values. Numbers
/// become text.
fn attributes(bytes: &[u8], at: u64) -> BTreeMap<String, String> {
    let pairs = messages(bytes, at).into_iter();
    pairs
        .map(|pair| {
            let value = messages(pair, 2)[0];
            let value = match &fields(value)[0] {
                (1, Field::Bytes(text)) => String::from_utf8(text.to_vec()).unwrap(),
                (3, Field::Number(number)) => number.to_string(),
                (other, _) => panic!("an attribute of kind {other}"),
            };
            (text(pair, 1), value)
        })
        .collect()
}

/// Returns the spans of an `ExportTraceServiceRequest`, the message that a collector receives.
pub(crate) fn spans(request: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for of_resource in messages(request, 1) {
        let resource = attributes(messages(of_resource, 1)[0], 1);
        for of_scope in messages(of_resource, 2) {
            for span in messages(of_scope, 2) {
                let status = messages(span, 15);
                assert!(messages(span, 11).is_empty(), "spans have no events");
                spans.push(Span {
                    trace: hex(span, 1),
                    id: hex(span, 2),
                    trace_state: text(span, 3),
                    parent: hex(span, 4),
                    name: text(span, 5),
                    kind: number(span, 6),
                    nanos: number(span, 8) - number(span, 7),
                    attributes: attributes(span, 9),
                    status: status.first().map_or(0, |status| number(status, 3)),
                    resource: resource.clone(),
                });
            }
        }
    }
    spans
}
