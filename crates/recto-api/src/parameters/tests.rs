#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::*;
use crate::buckets::BucketsRequest;
use crate::csv::CsvOptions;
use crate::pages::{Count, MAX_COUNT_UP_TO, PageRequest};
use crate::records::PutOptions;

fn of_query<T: DeserializeOwned>(query: &str) -> Result<T, ParameterError> {
    Parameters::of_query(query, names_of::<T>())?.read()
}

fn of_json<T: DeserializeOwned>(body: &Json) -> Result<T, ParameterError> {
    Parameters::of_json(&body.to_string(), names_of::<T>())?.read()
}

/// Writes a request as the parameters of a URL and as a body, and reads it back from both.
fn round_trip<T: Serialize + DeserializeOwned>(request: &T) -> [T; 2] {
    let body = serde_json::to_string(request).unwrap();
    let of_body = Parameters::of_json(&body, names_of::<T>())
        .unwrap()
        .read()
        .unwrap();
    [of_query(&to_query(request)).unwrap(), of_body]
}

#[test]
fn an_address_is_form_encoded() {
    let request: PageRequest = of_query("filter=x+y%2Bz%26&&order_by").unwrap();
    assert_eq!(
        (request.filter.as_str(), request.order_by.as_str()),
        ("x y+z&", "")
    );
    let request = PageRequest {
        filter: "ü".into(),
        ..PageRequest::default()
    };
    assert_eq!(to_query(&request), "filter=%C3%BC");
}

#[test]
fn wrong_addresses_are_rejected_by_name() {
    for (query, name) in [
        ("c=1", "c"),
        ("filter=1&filter=1", "filter"),
        ("Filter=1", "Filter"),
        ("filter%5B%5D=1", "filter[]"),
        ("filter=%ff", "filter"),
        ("filter=%4", "filter"),
        ("=1", ""),
        ("last=1", "last"),
        ("last=", "last"),
        ("page_size=", "page_size"),
        ("page_size=1.0", "page_size"),
        ("page_size=1e3", "page_size"),
        ("page_size=%2B1", "page_size"),
        ("page_size=0x1", "page_size"),
        ("page_size=-", "page_size"),
        ("page_size=%D9%A3", "page_size"),
        ("fields=a,,b", "fields"),
        ("fields=a&fields=b", "fields"),
    ] {
        let error = of_query::<PageRequest>(query).unwrap_err();
        assert_eq!(error.name.as_deref(), Some(name), "{query}: {error}");
    }
    let message = |query: &str| of_query::<PageRequest>(query).unwrap_err().message;
    assert_eq!(message("page_size=x"), "page_size is a whole number, not \"x\"");
    assert_eq!(message("last=yes"), "last is true or false, not \"yes\"");
    assert_eq!(message("filter=1&filter=1"), "filter is given more than once");
}

#[test]
fn whole_numbers_of_any_length_are_read() {
    for (digits, number) in [
        ("12", 12),
        ("-0", 0),
        ("99999999999999999999", i64::MAX),
        ("-99999999999999999999", i64::MIN),
    ] {
        let request: PageRequest = of_query(&format!("page_size={digits}")).unwrap();
        assert_eq!(request.page_size, Some(number));
    }
    for (number, expected) in [(json!(2.0), 2), (json!(1e300), i64::MAX), (json!(-3), -3)] {
        let request: PageRequest = of_json(&json!({ "page_size": number })).unwrap();
        assert_eq!(request.page_size, Some(expected));
    }
}

#[test]
fn a_body_is_the_same_request() {
    let body = json!({
        "filter": "a = 1 & é", "page_size": 7, "from": ["x", 1.5, true], "last": false, "fields": ["a", "b", "a"],
    });
    let request: PageRequest = of_json(&body).unwrap();
    let query = "filter=a+%3D+1+%26+%C3%A9&page_size=7&from=%5B%22x%22,1.5,true%5D&last=false&fields=a,+b,a";
    assert_eq!(request, of_query(query).unwrap());
    assert_eq!(request.from.as_deref(), Some("[\"x\",1.5,true]"));
    assert_eq!(request.fields, ["a", "b"]);
}

#[test]
fn wrong_bodies_are_rejected_by_name() {
    for (body, name) in [
        (json!({ "filter": 1 }), "filter"),
        (json!({ "filter": null }), "filter"),
        (json!({ "page_size": "7" }), "page_size"),
        (json!({ "page_size": 1.5 }), "page_size"),
        (json!({ "page_size": null }), "page_size"),
        (json!({ "from": "[1]" }), "from"),
        (json!({ "from": null }), "from"),
        (json!({ "last": "true" }), "last"),
        (json!({ "last": 1 }), "last"),
        (json!({ "fields": "a,b" }), "fields"),
        (json!({ "fields": ["a,b"] }), "fields"),
        (json!({ "fields": [1] }), "fields"),
        (json!({ "around": null }), "around"),
        (json!({ "sort": "a" }), "sort"),
    ] {
        let error = of_json::<PageRequest>(&body).unwrap_err();
        assert_eq!(error.name.as_deref(), Some(name), "{body}: {error}");
        assert!(!error.message.contains(" at line "), "{error}");
    }
    assert_eq!(of_json::<PageRequest>(&json!([])).unwrap_err().name, None);
}

#[test]
fn numbers_in_values_keep_their_digits() {
    let from = "[1000000000000000000.10,1e400]";
    let request = PageRequest {
        from: Some(from.into()),
        ..PageRequest::default()
    };
    assert_eq!(
        serde_json::to_string(&request).unwrap(),
        format!("{{\"from\":{from}}}")
    );
    for read in round_trip(&request) {
        assert_eq!(read.from.as_deref(), Some(from));
    }
    let wrong = PageRequest {
        from: Some("no array".into()),
        ..PageRequest::default()
    };
    assert_eq!(to_query(&wrong), "from=no%20array");
    assert_eq!(serde_json::to_string(&wrong).unwrap(), r#"{"from":"no array"}"#);
}

#[test]
fn a_position_excludes_others() {
    for (query, name) in [
        ("page_token=t&last=true", Some("last")),
        ("from=%5B%5D&around=60%25", Some("around")),
        ("page_size=-1", Some("page_size")),
        ("page_token=&around=&last=false&page_size=0", None),
    ] {
        let checked = of_query::<PageRequest>(query).unwrap().check();
        assert_eq!(
            checked.err().and_then(|error| error.name).as_deref(),
            name,
            "{query}"
        );
    }
}

#[test]
fn values_of_other_types_are_parsed() {
    let query = "null=NULL&null=%5CN&delimiter=tab&map=a%3Db&map=c%3D&blobs=hex";
    let options: CsvOptions = of_query(query).unwrap();
    assert_eq!(options.null, ["NULL", "\\N"]);
    assert_eq!(options.map.len(), 2);
    assert_eq!(to_query(&options), query);
    let error = of_query::<CsvOptions>("delimiter=ab").unwrap_err();
    assert_eq!(error.name.as_deref(), Some("delimiter"));
    assert!(error.hint.is_some(), "{error:?}");
    assert!(!error.message.contains("name one"), "{error:?}");
}

#[test]
fn options_are_left_for_another_struct() {
    let known = [names_of::<PageRequest>(), names_of::<PutOptions>()].concat();
    let parameters = Parameters::of_query("filter=a&ttl_seconds=7", &known).unwrap();
    assert_eq!(parameters.read::<PageRequest>().unwrap().filter, "a");
    assert_eq!(parameters.read::<PutOptions>().unwrap().ttl_seconds, Some(7));
}

prop_compose! {
    fn page_request()(
        texts in proptest::array::uniform4(".{0,9}"),
        page_size in proptest::option::of(any::<i64>()),
        from in proptest::option::of(proptest::collection::vec(any::<i64>(), 0..3)),
        around in proptest::option::of(".{1,9}"),
        fields in proptest::collection::hash_set("[a-zé&+][a-z &]{0,2}[a-z]", 0..4),
        flags in any::<[bool; 5]>(),
        skip in proptest::option::of(any::<i64>()),
        count in proptest::option::of(prop_oneof![
            Just(Count::Exact),
            Just(Count::Estimate),
            (1..=MAX_COUNT_UP_TO).prop_map(Count::UpTo),
        ]),
    ) -> PageRequest {
        let [filter, order_by, page_token, view] = texts;
        let [last, allow_filter_scan, row_page_tokens, versions, both_edges] = flags;
        PageRequest {
            filter, order_by, page_size, page_token, last, around, view, allow_filter_scan, row_page_tokens, versions, both_edges, count, skip,
            from: from.map(|values| Json::from(values).to_string()),
            fields: fields.into_iter().collect(),
        }
    }
}

proptest! {
    #[test]
    fn a_page_request_is_read_as_it_was_written(request in page_request()) {
        let [of_query, of_body] = round_trip(&request);
        prop_assert_eq!(&of_query, &request);
        prop_assert_eq!(&of_body, &request);
    }

    #[test]
    fn any_text_is_read_or_rejected(text in ".{0,60}") {
        let _ = of_query::<PageRequest>(&text);
        let _ = Parameters::of_json(&text, names_of::<PageRequest>());
        let _ = of_query::<BucketsRequest>(&format!("at={text}"));
    }
}
