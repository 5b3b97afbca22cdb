//! Tests with golden files: cursors of earlier releases, stored with their queries and expected
//! pages.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto::{OpenOptions, Recto};
use recto_plan::cursor::{CursorError, CursorName};

use super::support::{SCHEMA, fresh, kind, refused, rows_of, times};
use crate::common::Subject;

/// Golden files, one for each version of the content of a cursor. A file has `key: value` lines,
/// and then one line for each cursor. Every later release must open these cursors, so never edit
/// the files.
const GOLDEN: [&str; 2] = [
    include_str!("golden/cursor-v1.txt"),
    include_str!("golden/cursor-v2.txt"),
];

struct File {
    keys: Vec<u8>,
    collection: &'static str,
    stream: &'static str,
    rows: i32,
    cursors: Vec<Line>,
}

/// Line of a golden file: how the cursor is used, its query, the cursor, and the expected page of
/// two rows.
struct Line {
    used: &'static str,
    filter: &'static str,
    sort: &'static str,
    cursor: &'static str,
    page: Vec<i64>,
}

fn read(text: &'static str) -> File {
    let value = |name: &str| {
        let lines = text.lines();
        let mut found = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.next_back().unwrap_or_else(|| panic!("{name}"))
    };
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains(" | "));
    let cursors = lines.map(|line| {
        let [used, filter, sort, cursor, page] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        Line {
            used,
            filter,
            sort: if sort == "-" { "" } else { sort },
            cursor,
            page: page.split(' ').map(|at| at.parse().unwrap()).collect(),
        }
    });
    File {
        keys: URL_SAFE_NO_PAD.decode(value("keys")).unwrap(),
        collection: value("collection"),
        stream: value("stream"),
        rows: value("rows").parse().unwrap(),
        cursors: cursors.collect(),
    }
}

pub(crate) async fn cursors_of_every_version_open(recto: Recto) {
    for text in GOLDEN {
        let file = read(text);
        let store = fresh(kind(&recto), SCHEMA, OpenOptions::new().cursor_keys(&file.keys)).await;
        rows_of(&store, file.collection, file.stream, file.rows).await;
        let subject = Subject::new(&store, file.collection);
        assert!(file.cursors.len() >= 6);
        for line in file.cursors {
            let query = subject.text(line.filter, line.sort).page_size(2);
            let page = match line.used {
                "after" => query.first(2).after(line.cursor).await,
                "before" => query.last(2).before(line.cursor).await,
                "around" => query.around(line.cursor).await,
                "token" => query.page_token(line.cursor).await,
                other => panic!("{other}"),
            };
            assert_eq!(times(&page.unwrap()), line.page, "{} {}", line.used, line.cursor);
        }
    }
}

/// Checks that a cursor of a later release is rejected because of its version number, before any
/// other check.
pub(crate) async fn a_cursor_of_a_later_version_is_refused_by_its_number(recto: Recto) {
    let file = read(GOLDEN[0]);
    let store = fresh(kind(&recto), SCHEMA, OpenOptions::new().cursor_keys(&file.keys)).await;
    let line = &file.cursors[0];
    let query = Subject::new(&store, file.collection).text(line.filter, line.sort);
    for version in [2, 3, 255] {
        let mut bytes = URL_SAFE_NO_PAD.decode(line.cursor).unwrap();
        bytes[0] = version;
        let reason = refused(&query, &URL_SAFE_NO_PAD.encode(bytes)).await;
        assert_eq!(reason, CursorError::UnknownFormat { version });
        assert!(
            reason.to_string().ends_with(&format!("format {version}")),
            "{reason}"
        );
        assert!(
            reason.hint(CursorName::Cursor).contains("newer release"),
            "{reason}"
        );
    }
}
