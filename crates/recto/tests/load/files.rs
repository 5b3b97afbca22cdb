//! Tests of files that load, and of files that are rejected as a whole.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use recto::ErrorKind;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::support::Bench;

const CSV: &str = "sensor,at,value,count\na,2013-01-01T10:00:00Z,1.5,3\nb,2013-01-31T10:00:00.250+01:00,,\n";
const NDJSON: &str = r#"{"sensor":"a","at":"2013-01-01T10:00:00Z","value":1.5,"count":3}
{"sensor":"b","at":"2013-01-31T09:00:00.250Z","value":null}
"#;
const RECORDS: [&str; 2] = [
    r#"{"sensor":"a","at":"2013-01-01T10:00:00.000Z","value":1.5,"count":3}"#,
    r#"{"sensor":"b","at":"2013-01-31T09:00:00.250Z"}"#,
];

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

fn zip(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[tokio::test]
async fn every_format_and_packing_gives_the_same_records() {
    let (first, second) = CSV.split_at(30);
    let files: [(&str, Vec<u8>); 10] = [
        ("a.csv", CSV.into()),
        ("A.CSV", CSV.replace('\n', "\r\n").into()),
        ("a.ndjson", NDJSON.into()),
        ("a.jsonl", NDJSON.trim_end().into()),
        ("a.csv.gz", gzip(CSV.as_bytes())),
        (
            "two members.csv.gz",
            [gzip(first.as_bytes()), gzip(second.as_bytes())].concat(),
        ),
        ("a.ndjson.zst", zstd(NDJSON.as_bytes())),
        (
            "two frames.csv.zst",
            [zstd(first.as_bytes()), zstd(second.as_bytes())].concat(),
        ),
        (
            "a.zip",
            zip(&[
                ("readme.txt", "hello"),
                ("__MACOSX/._a.csv", "x"),
                ("folder/a.csv", CSV),
            ]),
        ),
        ("b.zip", zip(&[("a.ndjson", NDJSON)])),
    ];
    for (name, content) in files {
        let bench = Bench::new().await;
        let report = bench.load(&bench.file(name, content)).await.unwrap();
        assert_eq!(
            (report.rows_read, report.collections[0].rows_stored),
            (2, 2),
            "{name}"
        );
        assert_eq!(report.rejects, None, "{name}");
        assert_eq!(bench.records("readings").await, RECORDS, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_refused_and_changes_nothing() {
    let whole = CSV.repeat(2_000);
    let (mut gz, mut zst) = (gzip(whole.as_bytes()), zstd(whole.as_bytes()));
    gz.truncate(gz.len() - 20);
    zst.truncate(zst.len() - 20);
    let mut archive = zip(&[("a.csv", &whole)]);
    archive.truncate(archive.len() - 30);
    let several = zip(&[("a.csv", CSV), ("b.ndjson", NDJSON)]);
    let files: [(&str, Vec<u8>, ErrorKind, &str); 12] = [
        (
            "a.txt",
            CSV.into(),
            ErrorKind::InvalidArgument,
            "is not supported",
        ),
        ("csv", CSV.into(), ErrorKind::InvalidArgument, "is not supported"),
        (
            "a.txt.gz",
            gzip(b"x"),
            ErrorKind::InvalidArgument,
            "is not supported",
        ),
        (
            "a.parquet",
            Vec::new(),
            ErrorKind::InvalidArgument,
            "is not supported",
        ),
        (
            "none.zip",
            zip(&[("readme.txt", "hello")]),
            ErrorKind::InvalidArgument,
            "readme.txt",
        ),
        (
            "several.zip",
            several,
            ErrorKind::InvalidArgument,
            "a.csv, b.ndjson",
        ),
        ("short.zip", archive, ErrorKind::Io, "not a complete zip archive"),
        ("no.csv.gz", CSV.into(), ErrorKind::Io, "cannot be unpacked"),
        ("no.csv.zst", CSV.into(), ErrorKind::Io, "cannot be unpacked"),
        ("empty.csv", Vec::new(), ErrorKind::InvalidArgument, "is empty"),
        (
            "wide.csv",
            b"\xFF\xFEs\0".to_vec(),
            ErrorKind::InvalidArgument,
            "UTF-16",
        ),
        (
            "latin.csv",
            b"sensor,at,b\xE9\n".to_vec(),
            ErrorKind::InvalidArgument,
            "not UTF-8",
        ),
    ];
    let bench = Bench::new().await;
    for (name, content, kind, message) in files {
        let error = bench.load(&bench.file(name, content)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error}");
        assert!(error.to_string().contains(message), "{name}: {error}");
        assert!(error.hint().is_some(), "{name}: {error}");
    }
    let missing = bench.load(&bench.path("missing.csv")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    std::fs::create_dir(bench.path("folder.csv")).unwrap();
    let folder = bench.load(&bench.path("folder.csv")).await.unwrap_err();
    assert_eq!(folder.kind(), ErrorKind::InvalidArgument);
    // The files begin correctly and are damaged later. The load must store nothing of them.
    let mut wrong = gzip(CSV.as_ref());
    let checksum = wrong.len() - 8;
    wrong[checksum] ^= 1;
    for (name, content) in [
        ("short.csv.gz", gz),
        ("short.csv.zst", zst),
        ("wrong.csv.gz", wrong),
    ] {
        let error = bench.load(&bench.file(name, content)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{name}: {error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
    assert!(bench.records("readings").await.is_empty());
}

#[tokio::test]
async fn headers_must_fit() {
    let bench = Bench::new().await;
    let cases = [
        ("sensr,at\n", "no field for \"sensr\"", "did you mean sensor"),
        (
            "sensor,at,zzzzzz\n",
            "no field for \"zzzzzz\"",
            "--ignore-unknown",
        ),
        ("sensor,value\n", "no column at", "every row needs sensor, at"),
        ("sensor,at,at\n", "two columns named \"at\"", "each column once"),
        ("sensor,\"at\n", "cannot be read", "header row"),
        ("sensor,at,\n", "no field for \"\"", "--ignore-unknown"),
    ];
    for (index, (header, message, hint)) in cases.into_iter().enumerate() {
        let file = bench.file(&format!("{index}.csv"), header);
        let error = bench.load(&file).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{header}");
        assert!(error.to_string().contains(message), "{header}: {error}");
        assert!(
            error.hint().unwrap().contains(hint),
            "{header}: {:?}",
            error.hint()
        );
    }
    let file = bench.file("extra.csv", "extra,sensor,\"at\"\n1,a,2013-01-01T10:00:00Z\n");
    assert!(bench.load(&file).await.is_err());
    let report = bench
        .load_with(&file, |request| request.ignore_unknown = true)
        .await
        .unwrap();
    assert_eq!(report.collections[0].rows_stored, 1);
}

#[tokio::test]
async fn a_file_without_rows_is_a_load_of_nothing() {
    let bench = Bench::new().await;
    for (name, content) in [
        ("a.csv", "sensor,at\n"),
        ("b.csv", "sensor,at"),
        ("c.ndjson", ""),
        ("d.ndjson", "\n \n"),
    ] {
        let report = bench.load(&bench.file(name, content)).await.unwrap();
        assert_eq!((report.rows_read, report.rejects), (0, None), "{name}");
        assert_eq!(report.collections[0].rows_stored, 0, "{name}");
    }
}

#[tokio::test]
async fn a_request_must_make_sense() {
    let bench = Bench::new().await;
    let file = bench.file("a.csv", CSV);
    for collections in [vec![], vec!["readings".to_owned(), "readings".to_owned()]] {
        let error = bench
            .load_with(&file, |request| request.collections = collections)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    for bytes in [0, 1 << 50] {
        let error = bench
            .load_with(&file, |request| request.buffer_bytes = Some(bytes))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn the_first_bytes_tell_the_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    for (content, ending) in [
        (CSV.as_bytes().to_vec(), "csv"),
        (Vec::new(), "csv"),
        (b"\xEF\xBB\xBF \n{\"a\":1}".to_vec(), "ndjson"),
        (gzip(CSV.as_bytes()), "csv.gz"),
        (gzip(NDJSON.as_bytes()), "ndjson.gz"),
        (zstd(NDJSON.as_bytes()), "ndjson.zst"),
        (zip(&[("a.csv", CSV)]), "zip"),
    ] {
        std::fs::write(&path, content).unwrap();
        assert_eq!(recto::detect_load_ending(&path).unwrap(), ending);
    }
    std::fs::write(&path, b"\x1F\x8B\x08\0no").unwrap();
    assert_eq!(
        recto::detect_load_ending(&path).unwrap_err().kind(),
        ErrorKind::Io
    );
}
