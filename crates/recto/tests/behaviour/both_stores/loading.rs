//! Checks that either store can load files that other programs wrote.

use futures::TryStreamExt as _;
use recto::session::{CsvOptions, LoadRequest, Pages as _, ScanRequest, Session as _};
use recto::{LocalSession, Recto};

use crate::common::Fresh;
use crate::common::stores::{kind_of, parse};

const SCHEMA: &str = r#"
[collection.t]
fields = { name = "text", id = "int", ok = "boolean", at = "timestamp", bin = "blob", tags = "list<text>", counts = "map<text, int>", note = "text" }
key = ["name", "id"]
partition = ["name"]
writes = "overwrite"
"#;

/// Loads two CSV files: the output of `cqlsh COPY TO` with a quoted empty cell, and the output of a
/// spreadsheet.
pub(crate) async fn files_of_other_programs(recto: Recto) {
    let store = Fresh::new(kind_of(&recto)).open().await;
    store.apply(&parse(SCHEMA)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let session = LocalSession::new(store.clone());
    let load = async |name: &str, text: &str, csv: CsvOptions| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let request = LoadRequest {
            file,
            collections: vec!["t".to_owned()],
            csv,
            ..LoadRequest::default()
        };
        let report = session.tools().unwrap().load(&request, &|_| {}).await.unwrap();
        assert_eq!(report.collections[0].reasons, [], "{name}");
    };
    let copied = "name,id,ok,at,bin,tags,counts,note\r\n\
                  a,1,True,2020-04-02 09:03:16.933+0000,0xcafe,\"['x', 'y''s']\",\"{'k': 1, 'l': 2}\",\"\"\r\n\
                  a,2,False,,,,,\r\n";
    let hex = CsvOptions {
        blobs: Some("hex".parse().unwrap()),
        ..CsvOptions::default()
    };
    load("copied.csv", copied, hex).await;
    let spreadsheet = "Who;id;at;note\r\ra;3.0;02/04/2020 11:03;-\r\r";
    let options = CsvOptions {
        null: vec!["-".to_owned()],
        delimiter: Some(";".parse().unwrap()),
        map: vec!["Who=name".parse().unwrap()],
        time_format: Some("%d/%m/%Y %H:%M".to_owned()),
        time_zone: Some("Europe/Berlin".to_owned()),
        ..CsvOptions::default()
    };
    load("spreadsheet.csv", spreadsheet, options).await;
    let steps: Vec<_> = session
        .scan("t", &ScanRequest::default())
        .try_collect()
        .await
        .unwrap();
    let records = steps.into_iter().flat_map(|step| step.records);
    let records: Vec<String> = records
        .map(|record| serde_json::Value::Object(record).to_string())
        .collect();
    let expected = [
        r#"{"name":"a","id":1,"ok":true,"at":"2020-04-02T09:03:16.933Z","bin":"yv4=","tags":["x","y's"],"counts":[["k",1],["l",2]],"note":""}"#,
        r#"{"name":"a","id":2,"ok":false}"#,
        r#"{"name":"a","id":3,"at":"2020-04-02T09:03:00.000Z"}"#,
    ];
    assert_eq!(records, expected);
}
