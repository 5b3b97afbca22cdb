//! Checks keys of records in paths.

use serde_json::json;

use super::records::everything;
use super::support::Client;
use super::support::client::encode;

pub(crate) async fn hold_any_text(client: Client) {
    for tenant in [
        "a,b",
        "a/b",
        "100%",
        "a b+c",
        "ü€😀",
        "?#&=",
        "..",
        ";:@",
        "\"'\\",
        "\n\t",
    ] {
        let target = format!("/v1/collections/notes/records/{},1,1", encode(tenant));
        let reply = client.put(&target, &json!({ "title": tenant })).await;
        assert_eq!(reply.status, 204, "{tenant}: {}", reply.text());
        let record = client.get(&target).await.json();
        assert_eq!(record["tenant"], tenant);
        assert_eq!(client.delete(&target).await.status, 204);
        assert_eq!(client.get(&target).await.status, 404);
    }
}

pub(crate) async fn of_any_type_are_found_again(client: Client) {
    for (ratio, price) in [
        ("1.5", "0.5"),
        ("-0.0", "100"),
        ("NaN", "1E+5"),
        ("1e-7", "-1"),
        ("Infinity", "0"),
    ] {
        let key = format!(
            "typed,false,{},{},1969-12-31T23:59:59.999Z,cc520882-9507-44fb-8fc9-b349ecdee658,",
            encode(price),
            encode(ratio)
        );
        let target = format!("/v1/collections/everything/records/{key}");
        let mut record = everything();
        for name in ["name", "flag", "price", "ratio", "at", "code", "bytes"] {
            record.as_object_mut().unwrap().remove(name);
        }
        let reply = client.put(&target, &record).await;
        assert_eq!(reply.status, 204, "{key}: {}", reply.text());
        let found = client.get(&target).await;
        assert_eq!(found.status, 200, "{key}: {}", found.text());
        let found = found.json();
        assert_eq!(found["bytes"], "");
        // Build the key from the values in the response. It must lead to the same record.
        let text = |name: &str| match &found[name] {
            serde_json::Value::String(text) => encode(text),
            other => encode(&other.to_string()),
        };
        let names = ["name", "flag", "price", "ratio", "at", "code", "bytes"];
        let again = names.map(text).join(",");
        let target = format!("/v1/collections/everything/records/{again}");
        assert_eq!(client.get(&target).await.json(), found, "{again}");
        let values = names.map(|name| found[name].clone());
        client
            .write("everything", vec![json!({ "delete": values })])
            .await;
        assert_eq!(client.get(&target).await.status, 404);
    }
}

pub(crate) async fn that_do_not_fit_are_refused(client: Client) {
    let base = "/v1/collections/notes/records/";
    for (key, kind) in [
        ("a", "invalid-record"),
        ("a,1", "invalid-record"),
        ("a,1,2,3", "invalid-record"),
        ("a,x,1", "invalid-record"),
        ("a,1.0,1", "invalid-record"),
        ("a,1,99999999999999999999", "invalid-record"),
        ("%ff,1,1", "invalid-parameter"),
        ("%4,1,1", "invalid-parameter"),
    ] {
        client.get(&format!("{base}{key}")).await.problem(400, kind);
        client.delete(&format!("{base}{key}")).await.problem(400, kind);
        client
            .put(&format!("{base}{key}"), &json!({}))
            .await
            .problem(400, kind);
    }
}
