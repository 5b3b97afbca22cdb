//! Tests of loading CSV files in the forms that other programs write.

use recto::session::{CsvOptions, LoadReport, LoadRequest};
use recto::store::memory::MemoryStore;
use recto::{Environment, ErrorKind, LocalSession};

use crate::support::{load_into, open_with, records_of};

const TYPES: &str = r#"
[collection.t]
fields = { id = "int", n = "bigint", x = "double", name = "text", ok = "boolean", day = "date", at = "timestamp", tod = "time", bin = "blob", tags = "list<text>", nums = "set<int>", counts = "map<text, int>", pair = "tuple<int, text>", took = "duration" }
key = ["id"]
"#;

struct Files {
    folder: tempfile::TempDir,
    session: LocalSession,
}

impl Files {
    async fn new(schema: &str) -> Self {
        let store = std::sync::Arc::new(MemoryStore::new(Environment::system()));
        Self {
            folder: tempfile::tempdir().unwrap(),
            session: LocalSession::new(open_with(store, schema).await),
        }
    }

    async fn try_load(
        &self,
        name: &str,
        text: impl AsRef<[u8]>,
        csv: &CsvOptions,
    ) -> recto::Result<LoadReport> {
        self.try_load_with(name, text, |request| request.csv = csv.clone())
            .await
    }

    async fn try_load_with(
        &self,
        name: &str,
        text: impl AsRef<[u8]>,
        change: impl FnOnce(&mut LoadRequest),
    ) -> recto::Result<LoadReport> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let change = |request: &mut LoadRequest| {
            request.collections = vec!["t".to_owned()];
            change(request);
        };
        load_into(&self.session, &path, change).await
    }

    /// Loads a CSV file with the given content, and asserts that no row is rejected.
    async fn load(&self, name: &str, text: impl AsRef<[u8]>, csv: &CsvOptions) {
        let report = self.try_load(name, text, csv).await.unwrap();
        assert_eq!(report.collections[0].reasons, [], "{name}");
    }

    /// Loads a CSV file with the given content, and returns the reasons of the rejected rows.
    async fn reasons(&self, name: &str, text: impl AsRef<[u8]>, csv: &CsvOptions) -> Vec<String> {
        let report = self.try_load(name, text, csv).await.unwrap();
        let reasons = report.collections[0].reasons.iter();
        reasons.map(|(reason, _)| reason.clone()).collect()
    }

    async fn records(&self) -> Vec<String> {
        records_of(&self.session, "t").await
    }

    fn rejects(&self, name: &str) -> String {
        let path = self.folder.path().join(format!("{name}.rejects.csv"));
        std::fs::read_to_string(path).unwrap()
    }
}

fn nulls(texts: &[&str]) -> CsvOptions {
    CsvOptions {
        null: texts.iter().map(|&text| text.to_owned()).collect(),
        ..CsvOptions::default()
    }
}

fn time_format(pattern: &str, zone: Option<&str>) -> CsvOptions {
    CsvOptions {
        time_format: Some(pattern.to_owned()),
        time_zone: zone.map(str::to_owned),
        ..CsvOptions::default()
    }
}

fn mapped(map: &[&str]) -> CsvOptions {
    CsvOptions {
        map: map.iter().map(|text| text.parse().unwrap()).collect(),
        ..CsvOptions::default()
    }
}

#[tokio::test]
async fn only_the_unquoted_empty_cell_is_null() {
    let files = Files::new(TYPES).await;
    files
        .load("a.csv", "id,name\n1,\"\"\n2,\n3,NULL\n", &nulls(&[]))
        .await;
    let expected = [
        r#"{"id":1,"name":""}"#,
        r#"{"id":2}"#,
        r#"{"id":3,"name":"NULL"}"#,
    ];
    assert_eq!(files.records().await, expected);
}

#[tokio::test]
async fn null_texts_are_compared_with_their_quotes() {
    let files = Files::new(TYPES).await;
    let text = "id,name\n1,NA\n2,\"NA\"\n3,\n4,\"\"\n";
    files.load("a.csv", text, &nulls(&["NA"])).await;
    let expected = [
        r#"{"id":1}"#,
        r#"{"id":2,"name":"NA"}"#,
        r#"{"id":3,"name":""}"#,
        r#"{"id":4,"name":""}"#,
    ];
    assert_eq!(files.records().await, expected);
    files.load("b.csv", text, &nulls(&["", "\"\""])).await;
    let expected = [
        r#"{"id":1,"name":"NA"}"#,
        r#"{"id":2,"name":"NA"}"#,
        r#"{"id":3}"#,
        r#"{"id":4}"#,
    ];
    assert_eq!(files.records().await, expected);
}

#[tokio::test]
async fn an_empty_cell_of_another_type_names_the_option() {
    let files = Files::new(TYPES).await;
    let reasons = files.reasons("a.csv", "id,n\n1,\"\"\n2,\n", &nulls(&[])).await;
    assert_eq!(
        reasons,
        ["n: an empty cell is not a bigint (hint: --null '\"\"')"]
    );
    let reasons = files.reasons("b.csv", "id,n\n3,\n4,NA\n", &nulls(&["NA"])).await;
    assert_eq!(reasons, ["n: an empty cell is not a bigint (hint: --null '')"]);
    assert_eq!(files.records().await, [r#"{"id":2}"#, r#"{"id":4}"#]);
}

#[tokio::test]
async fn rejected_rows_keep_their_quotes() {
    let files = Files::new(TYPES).await;
    let text = "id;name;n\n1;\"\";x\n2;;x\n";
    let csv = CsvOptions {
        delimiter: Some(";".parse().unwrap()),
        ..CsvOptions::default()
    };
    files.try_load("a.csv", text, &csv).await.unwrap();
    let rejects = files.rejects("a.csv");
    let mut lines = rejects.lines();
    assert_eq!(
        lines.next(),
        Some("recto_line;recto_collection;recto_reason;id;name;n")
    );
    assert!(lines.next().unwrap().ends_with(";1;\"\";x"), "{rejects}");
    assert!(lines.next().unwrap().ends_with(";2;;x"), "{rejects}");
}

#[tokio::test]
async fn rows_that_the_store_rejects_are_read_back_alike() {
    let schema = TYPES.to_owned() + "writes = \"append\"\n";
    let files = Files::new(&schema).await;
    let csv = CsvOptions {
        null: vec!["NA".to_owned()],
        delimiter: Some("|".parse().unwrap()),
        blobs: Some("hex".parse().unwrap()),
        time_format: Some("%d.%m.%Y %H:%M".to_owned()),
        time_zone: Some("Europe/Berlin".to_owned()),
        ..CsvOptions::default()
    };
    files
        .load("a.csv", "id|name\n1|there\n2|there\n", &nulls_with_bar())
        .await;
    let text =
        "id|name|n|at|bin|tags\n1|\"NA\"|NA|01.07.2024 10:30|0x0aff|\"['a', 'b|c']\"\n2||5.0|NA|NA|NA\n";
    let report = files.try_load("b.csv", text, &csv).await.unwrap();
    assert_eq!(report.collections[0].rows_rejected, 2);
    let rejects = files.rejects("b.csv");
    // With the same options, the reject file must load the same values.
    let other = Files::new(&schema).await;
    let report = other
        .try_load_with("c.csv", &rejects, |request| {
            request.csv = csv.clone();
            request.ignore_unknown = true;
        })
        .await
        .unwrap();
    assert_eq!(report.collections[0].reasons, [], "{rejects}");
    let expected = [
        r#"{"id":1,"name":"NA","at":"2024-07-01T08:30:00.000Z","bin":"Cv8=","tags":["a","b|c"]}"#,
        r#"{"id":2,"n":"5","name":""}"#,
    ];
    assert_eq!(other.records().await, expected, "{rejects}");
}

fn nulls_with_bar() -> CsvOptions {
    CsvOptions {
        delimiter: Some("|".parse().unwrap()),
        ..CsvOptions::default()
    }
}

#[tokio::test]
async fn whole_numbers_may_have_zeros_after_the_point() {
    let files = Files::new(TYPES).await;
    let text = "id,n,x\n1.0,5.00,+5\n2,-5.0,+.5\n3,1e3,-1.5\n";
    let reasons = files.reasons("a.csv", text, &nulls(&[])).await;
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].starts_with("x: expected a double"), "{reasons:?}");
    let expected = [r#"{"id":1,"n":"5","x":5.0}"#, r#"{"id":3,"n":"1000","x":-1.5}"#];
    assert_eq!(files.records().await, expected);
    let reasons = files.reasons("b.csv", "id,n\n4,5.01\n5,+-5\n", &nulls(&[])).await;
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].starts_with("n: expected a bigint"), "{reasons:?}");
}

#[tokio::test]
async fn booleans_have_the_spellings_of_postgresql() {
    let files = Files::new(TYPES).await;
    let (yes, no) = (
        ["true", "True", "TRUE", "t", "yes", "Y", "on", "1"],
        ["false", "False", "F", "no", "n", "OFF", "0"],
    );
    let mut text = "id,ok\n".to_owned();
    for (id, word) in yes.iter().chain(&no).enumerate() {
        text += &format!("{id},{word}\n");
    }
    files.load("a.csv", text, &nulls(&[])).await;
    let records = files.records().await;
    let of = |ok: bool| {
        let of = records
            .iter()
            .filter(|record| record.contains(&format!("\"ok\":{ok}")));
        of.count()
    };
    assert_eq!((of(true), of(false)), (yes.len(), no.len()));
    let reasons = files.reasons("b.csv", "id,ok\n99,2\n", &nulls(&[])).await;
    assert_eq!(reasons, ["ok: expected true or false"]);
}

#[tokio::test]
async fn a_file_of_cqlsh_copy_to_loads() {
    let files = Files::new(TYPES).await;
    let text = "id,n,x,name,ok,day,at,tod,bin,tags,nums,counts,pair,took\r\n\
                1,10,1.5,Ada,True,2020-04-02,2020-04-02 09:03:16.933+0000,10:00:00.000000000,0xcafebabe00,\
                \"['it''s', 'a, b']\",\"{1, 2}\",\"{'a: x': 1, 'b': 2}\",\"(7, 'x')\",1mo2d3h4m5s6ms\r\n\
                2,,,\"say \\\"hi\\\" \\\\n\",False,,,,0x,[],{},{},\"(7, null)\",\r\n";
    let csv = CsvOptions {
        blobs: Some("hex".parse().unwrap()),
        escape: Some("\\".parse().unwrap()),
        ..CsvOptions::default()
    };
    files.load("a.csv", text, &csv).await;
    let expected = [
        r#"{"id":1,"n":"10","x":1.5,"name":"Ada","ok":true,"day":"2020-04-02","at":"2020-04-02T09:03:16.933Z","tod":"10:00:00.000000000","bin":"yv66vgA=","tags":["it's","a, b"],"nums":[1,2],"counts":[["a: x",1],["b",2]],"pair":[7,"x"],"took":"P1M2DT3H4M5.006S"}"#,
        r#"{"id":2,"name":"say \"hi\" \\n","ok":false,"bin":"","tags":[],"nums":[],"counts":[],"pair":[7,null]}"#,
    ];
    assert_eq!(files.records().await, expected);
    // Without the options, the blob is ambiguous between hex and base64, and a quote inside a cell
    // ends the cell.
    let reasons = files.reasons("b.csv", text, &nulls(&[])).await;
    let expected = [
        "bin: a blob that may be hex or base64 (hint: --blobs hex)",
        r"text between a closing quote and the next separator (hint: --escape '\' if cells escape quotes by it)",
    ];
    assert_eq!(reasons, expected);
}

#[tokio::test]
async fn blobs_are_base64_or_hex() {
    let files = Files::new(TYPES).await;
    let form = |form: &str| CsvOptions {
        blobs: Some(form.parse().unwrap()),
        ..CsvOptions::default()
    };
    files.load("a.csv", "id,bin\n1,0xAB\n", &form("base64")).await;
    files
        .load("b.csv", "id,bin\n2,0xAB\n3,\\xab\n4,ab\n", &form("hex"))
        .await;
    let expected = [
        r#"{"id":1,"bin":"0xAB"}"#,
        r#"{"id":2,"bin":"qw=="}"#,
        r#"{"id":3,"bin":"qw=="}"#,
        r#"{"id":4,"bin":"qw=="}"#,
    ];
    assert_eq!(files.records().await, expected);
    let reasons = files.reasons("c.csv", "id,bin\n5,abc\n", &form("hex")).await;
    assert_eq!(reasons, ["bin: expected a blob in hex such as \"0xdeadbeef\""]);
}

#[tokio::test]
async fn times_without_an_offset_need_a_zone() {
    let files = Files::new(TYPES).await;
    let text = "id,at\n1,2024-07-01 10:30\n2,2024-01-01T10:30:00.5\n3,2024-07-01 10:30+02\n4,2024-07-01\n5,2024-07-01 10:30 UTC\n";
    let reasons = files.reasons("a.csv", text, &nulls(&[])).await;
    assert_eq!(reasons, ["at: a timestamp without an offset (hint: --time-zone)"]);
    let expected = [
        r#"{"id":3,"at":"2024-07-01T08:30:00.000Z"}"#,
        r#"{"id":5,"at":"2024-07-01T10:30:00.000Z"}"#,
    ];
    assert_eq!(files.records().await, expected);
    for (zone, first, second) in [
        (
            "Europe/Berlin",
            "2024-07-01T08:30:00.000Z",
            "2024-01-01T09:30:00.500Z",
        ),
        ("-05:00", "2024-07-01T15:30:00.000Z", "2024-01-01T15:30:00.500Z"),
        ("UTC", "2024-07-01T10:30:00.000Z", "2024-01-01T10:30:00.500Z"),
    ] {
        let csv = CsvOptions {
            time_zone: Some(zone.to_owned()),
            ..CsvOptions::default()
        };
        files.load("b.csv", text, &csv).await;
        let records = files.records().await;
        assert!(records[0].contains(first), "{zone}: {records:?}");
        assert!(records[1].contains(second), "{zone}: {records:?}");
        assert!(
            records[2].contains("2024-07-01T08:30:00.000Z"),
            "{zone}: {records:?}"
        );
    }
}

#[tokio::test]
async fn a_time_that_a_zone_has_twice_is_rejected() {
    let files = Files::new(TYPES).await;
    let csv = CsvOptions {
        time_zone: Some("Europe/Berlin".to_owned()),
        ..CsvOptions::default()
    };
    let text = "id,at\n1,2024-10-27 02:30:00\n2,2024-03-31 02:30:00\n3,2024-10-27 03:30:00\n";
    let reasons = files.reasons("a.csv", text, &csv).await;
    assert_eq!(reasons, ["at: a time that the time zone has twice or not at all"]);
    assert_eq!(
        files.records().await,
        [r#"{"id":3,"at":"2024-10-27T02:30:00.000Z"}"#]
    );
    let csv = CsvOptions {
        time_zone: Some("Europe/Berlinn".to_owned()),
        ..CsvOptions::default()
    };
    let error = files.try_load("a.csv", text, &csv).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("Europe/Berlinn"), "{error}");
}

#[tokio::test]
async fn time_formats() {
    for (pattern, cell, field, expected) in [
        ("%Y/%m/%d", "2012/01/31", "day", "2012-01-31"),
        ("%b %d %Y", "Jan 1 2000", "day", "2000-01-01"),
        ("%A, %B %e, %y", "friday, december  5, 69", "day", "1969-12-05"),
        (
            "%d/%m/%Y %I:%M %p",
            "31/01/2012 12:05 am",
            "at",
            "2012-01-31T00:05:00.000Z",
        ),
        ("%Y%m%d%H%M%S", "20120131100005", "at", "2012-01-31T10:00:05.000Z"),
        (
            "%F %T.%f%z",
            "2012-01-31 10:00:05.25-0130",
            "at",
            "2012-01-31T11:30:05.250Z",
        ),
        ("%s", "-1", "at", "1969-12-31T23:59:59.000Z"),
        ("%H.%M", "9.05", "tod", "09:05:00.000000000"),
        // A date pattern must have no effect on times of day.
        ("%Y/%m/%d", "10:00:00", "tod", "10:00:00.000000000"),
    ] {
        let files = Files::new(TYPES).await;
        let text = format!("id,{field}\n1,\"{cell}\"\n");
        files
            .load("a.csv", text, &time_format(pattern, Some("UTC")))
            .await;
        let expected = format!("{{\"id\":1,\"{field}\":\"{expected}\"}}");
        assert_eq!(files.records().await, [expected], "{pattern}");
    }
}

#[tokio::test]
async fn cells_that_do_not_fit_a_time_format_are_rejected() {
    for (pattern, cell, field) in [
        ("%Y/%m/%d", "2012/02/30", "day"),
        ("%Y/%m/%d", "12/02/03", "day"),
        ("%Y/%m/%d", "2012/02/03x", "day"),
        ("%Y/%m/%d", "2012-02-03", "day"),
        ("%Y/%m/%d %H:%M", "2012/02/03 10:00", "day"),
        ("%A %F", "Monday 2012-01-31", "day"),
        ("%F %I:%M %p", "2012-01-31 13:00 PM", "at"),
        ("%F %T", "2012-01-31 24:00:00", "at"),
        ("%F %T", "2012-01-31 10:00:60", "at"),
        ("%F %T.%f", "2012-01-31 10:00:00.0001", "at"),
    ] {
        let files = Files::new(TYPES).await;
        let text = format!("id,{field}\n1,{cell}\n");
        let reasons = files
            .reasons("a.csv", text, &time_format(pattern, Some("UTC")))
            .await;
        assert_eq!(reasons.len(), 1, "{pattern} {cell}: {:?}", files.records().await);
        assert!(reasons[0].contains(pattern), "{reasons:?}");
    }
    let files = Files::new(TYPES).await;
    let reasons = files
        .reasons("a.csv", "id,at\n1,2012/02/03\n", &time_format("%Y/%m/%d", None))
        .await;
    assert_eq!(reasons, ["at: a timestamp without an offset (hint: --time-zone)"]);
    for pattern in ["%Y-%m", "%Q", "%I:%M", "%M", "x", "%", "%s %H", "%H%I%p", "%H:%f"] {
        let error = files
            .try_load("b.csv", "id\n1\n", &time_format(pattern, None))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{pattern}");
        assert_eq!(error.field(), Some("time_format"), "{pattern}");
    }
}

#[tokio::test]
async fn lines_may_end_in_cr() {
    for end in ["\n", "\r\n", "\r", "\r\r\n"] {
        let files = Files::new(TYPES).await;
        let text = ["id,name", "7,Ada", "8,\"a\r\nb\"", "9,\"c\"", "x,\"d\"", ""].join(end);
        let report = files.try_load("a.csv", &text, &nulls(&[])).await.unwrap();
        assert_eq!(report.rows_read, 4, "{end:?}");
        let expected = [
            r#"{"id":7,"name":"Ada"}"#,
            r#"{"id":8,"name":"a\r\nb"}"#,
            r#"{"id":9,"name":"c"}"#,
        ];
        assert_eq!(files.records().await, expected, "{end:?}");
        let rejects = files.rejects("a.csv");
        assert!(rejects.contains("\n6,t,"), "{end:?}: {rejects}");
    }
}

#[tokio::test]
async fn a_wrong_separator_is_named() {
    let files = Files::new(TYPES).await;
    for (text, named) in [
        ("id;name\n1;a\n", ";"),
        ("id\tname\n1\ta\n", "tab"),
        ("id|name\n1|a\n", "|"),
        ("\"id\";\"name\"\n1;a\n", ";"),
    ] {
        for ignore_unknown in [false, true] {
            let change = |request: &mut LoadRequest| request.ignore_unknown = ignore_unknown;
            let error = files.try_load_with("a.csv", text, change).await;
            let Err(error) = error else {
                panic!("{text:?}");
            };
            let message = format!("the separator of the file is {named}, not ,");
            assert!(error.message().starts_with(&message), "{text:?}: {error}");
            let hint = format!("set the separator with --delimiter '{named}'");
            assert_eq!(error.hint(), Some(hint.as_str()));
        }
        let csv = CsvOptions {
            delimiter: Some(named.parse().unwrap()),
            ..CsvOptions::default()
        };
        files.load("a.csv", text, &csv).await;
        assert_eq!(files.records().await, [r#"{"id":1,"name":"a"}"#]);
    }
    // With `ignore_unknown`, an ignored column may have any name.
    let change = |request: &mut LoadRequest| request.ignore_unknown = true;
    let report = files
        .try_load_with("b.csv", "id,name;n\n2,x\n", change)
        .await
        .unwrap();
    assert_eq!(report.collections[0].rows_stored, 1);
}

#[tokio::test]
async fn columns_are_mapped_to_fields() {
    let files = Files::new(TYPES).await;
    let text = "\"\",Sample Number,lifeExp,a=b\n1,7,28.8,x\n";
    let csv = mapped(&["=", "Sample Number=id", "lifeExp=x", "a=b=name"]);
    files.load("a.csv", text, &csv).await;
    assert_eq!(files.records().await, [r#"{"id":7,"x":28.8,"name":"x"}"#]);
    for (map, message) in [
        (&["lifeexp=x"][..], "the file has no column \"lifeexp\" to map"),
        (
            &["lifeExp=y"],
            "the column \"lifeExp\" is mapped to \"y\", which is not a field of t",
        ),
        (
            &["lifeExp=x", "lifeExp=n"],
            "the column \"lifeExp\" is mapped twice",
        ),
        (
            &["lifeExp=x", "a=b=x"],
            "the columns \"lifeExp\" and \"a=b\" are both for x",
        ),
    ] {
        let error = files.try_load("a.csv", text, &mapped(map)).await.unwrap_err();
        assert_eq!(error.message(), message);
        assert_eq!(error.field(), Some("map"));
    }
    let error = files
        .try_load("b.csv", "id,nme\n1,2\n", &mapped(&[]))
        .await
        .unwrap_err();
    let hint = error.hint().unwrap();
    assert!(
        hint.starts_with("did you mean name? Use --map 'nme=name';"),
        "{hint}"
    );
    let error = files
        .try_load("b.csv", "id,x,y\n1,2,3\n", &mapped(&["y=x"]))
        .await
        .unwrap_err();
    assert_eq!(error.message(), "the columns \"x\" and \"y\" are both for x");
}

/// Checks that the first rows of public files load with suitable options, and are rejected without
/// them.
#[tokio::test]
async fn public_files_load() {
    for (text, csv, expected) in [
        (
            "Date,close\n2012/01/01,1\n2012/12/31,2\n",
            CsvOptions {
                map: vec!["close=x".parse().unwrap(), "Date=day".parse().unwrap()],
                time_format: Some("%Y/%m/%d".to_owned()),
                ..CsvOptions::default()
            },
            "\"day\":\"2012-12-31\"",
        ),
        (
            "symbol,date,price\nMSFT,Jan 1 2000,39.81\nMSFT,Feb 1 2000,36.35\n",
            CsvOptions {
                map: vec![
                    "symbol=name".parse().unwrap(),
                    "date=day".parse().unwrap(),
                    "price=x".parse().unwrap(),
                ],
                time_format: Some("%b %d %Y".to_owned()),
                ..CsvOptions::default()
            },
            "\"day\":\"2000-02-01\"",
        ),
        (
            "country,year,lifeExp\nAfghanistan,1952,28.801\nAfghanistan,1957,30.332\n",
            mapped(&["country=name", "year=n", "lifeExp=x"]),
            "\"x\":30.332",
        ),
        (
            "studyName,Sample Number,Comments\nPAL0708,1,Not enough blood for isotopes.\nPAL0708,2,\n",
            mapped(&["studyName=name", "Sample Number=n", "Comments="]),
            "\"n\":\"2\"",
        ),
        (
            "date,wind\n2012-01-01 00:00,4.7\n2012-01-02 00:00,4.5\n",
            CsvOptions {
                map: vec!["date=at".parse().unwrap(), "wind=x".parse().unwrap()],
                time_zone: Some("America/Los_Angeles".to_owned()),
                ..CsvOptions::default()
            },
            "\"at\":\"2012-01-02T08:00:00.000Z\"",
        ),
        (
            "species,body_mass_g\nAdelie,3750.0\nAdelie,NA\n",
            CsvOptions {
                null: vec!["NA".to_owned()],
                ..mapped(&["species=name", "body_mass_g=n"])
            },
            "\"name\":\"Adelie\"",
        ),
    ] {
        let files = Files::new(TYPES).await;
        // The files have no column for the key, so add one.
        let mut lines = text.lines();
        let mut with_id = format!("id,{}\n", lines.next().unwrap());
        for (id, line) in lines.enumerate() {
            with_id += &format!("{id},{line}\n");
        }
        files.load("a.csv", with_id, &csv).await;
        let records = files.records().await;
        assert_eq!(records.len(), 2, "{text}");
        assert!(records[1].contains(expected), "{records:?}");
    }
}

#[tokio::test]
async fn options_of_csv_are_refused_for_ndjson() {
    let files = Files::new(TYPES).await;
    let error = files
        .try_load("a.ndjson", "{\"id\":1}\n", &time_format("%s", None))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.message(),
        "--time-format is an option for CSV files, but this file is NDJSON"
    );
}

#[tokio::test]
async fn a_load_with_other_options_is_another_load() {
    let files = Files::new(TYPES).await;
    let text = "id,name\n1,a\n";
    let all = [
        CsvOptions::default(),
        nulls(&["a"]),
        nulls(&["b"]),
        nulls(&["a", "b"]),
        CsvOptions {
            delimiter: Some(",".parse().unwrap()),
            ..CsvOptions::default()
        },
        mapped(&["name="]),
        CsvOptions {
            blobs: Some("hex".parse().unwrap()),
            ..CsvOptions::default()
        },
        time_format("%s", None),
        time_format("%F", None),
        time_format("%F", Some("UTC")),
    ];
    for csv in &all {
        let report = files.try_load("a.csv", text, csv).await.unwrap();
        assert!(!report.already_loaded, "{csv:?}");
    }
    for csv in &all {
        let report = files.try_load("a.csv", text, csv).await.unwrap();
        assert!(report.already_loaded, "{csv:?}");
    }
}

#[tokio::test]
async fn too_many_nested_values_are_rejected() {
    let files = Files::new(TYPES).await;
    let many = "1,".repeat((1 << 20) + 1);
    let reasons = files
        .reasons("a.csv", format!("id,nums\n1,\"[{many}1]\"\n"), &nulls(&[]))
        .await;
    assert_eq!(reasons, ["nums: more than 1048576 values"]);
}
