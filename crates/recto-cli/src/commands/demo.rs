//! `recto demo`: creates a store with real data, and shows pages of it.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recto::schema::{Collection, Schema};
use recto::session::{Count, CsvOptions, LoadRequest, PageReply, PageRequest};
use recto::{LocalSession, OpenOptions, Session, StoreAddress};

use super::collection_of;
use super::console_server::serve_console;
use super::loading::{draw_collections, load};
use super::page_view::{View, cost};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::opening::Place;
use crate::progress::per_second;
use crate::text::{bytes, duration, grouped, printable, rows};

/// Default folder of the demo, for its store and its input file.
pub(crate) const FOLDER: &str = "recto-demo";
/// Folder of the demo's input file if the user names another store. The file cannot be in the
/// store's folder, because a store cannot be created in a folder that has other files.
const INPUT_FOLDER: &str = "recto-demo-input";
/// Name of the demo's input file.
const FILE: &str = "flights.csv.gz";
/// Maximum number of file names that the demo tries for the file of rejected flights.
const MAX_REJECT_FILES: u32 = 1_000;
/// ZIP archive with the flights. See `data/README.md` for their source.
const FLIGHTS: &[u8] = include_bytes!("../../data/flights.csv.zip");
/// Byte range of the compressed (deflate) text in the ZIP archive, which has one file.
const DEFLATED: Range<usize> = 57..8_258_798;
/// CRC-32 checksum of the uncompressed text of flights, for the .gz file.
const TEXT_CRC: u32 = 0x78bc_fcdd;
/// Length of the uncompressed text of flights, in bytes, for the .gz file.
const TEXT_BYTES: u32 = 31_053_850;
/// Schema of the demo: the collection of flights with a primary sort order and four views.
pub(crate) const SCHEMA: &str = include_str!("../../data/flights.toml");
/// Name of the only collection of the demo's schema.
const COLLECTION: &str = "flights";
/// Text in the demo's input file that means null.
const NULL: &str = "NA";
/// Number of rows that each page of the demo shows.
const ROWS: i64 = 6;

/// Page that the demo shows, with the query that selects it.
struct Scene {
    title: &'static str,
    filter: &'static str,
    fields: &'static [&'static str],
    /// Position of the page in the sort order.
    place: Beginning,
}

/// Position of a page in the sort order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beginning {
    First,
    /// The last page of the sort order. The demo then also shows the page before it.
    Last,
    /// The page at a share of all rows. For example, `50%` is the page in the middle.
    Share(&'static str),
}

const SCENES: [Scene; 4] = [
    Scene {
        title: "United's newest flights",
        filter: "carrier = \"UA\"",
        fields: &[
            "time_hour",
            "carrier",
            "flight",
            "origin",
            "dest",
            "dep_delay",
            "tailnum",
        ],
        place: Beginning::First,
    },
    Scene {
        title: "JFK to Los Angeles, from the end: the last page, then the one before it",
        filter: "origin = \"JFK\" AND dest = \"LAX\"",
        fields: &[
            "time_hour",
            "carrier",
            "flight",
            "dep_time",
            "arr_time",
            "air_time",
        ],
        place: Beginning::Last,
    },
    Scene {
        title: "One aircraft, in July",
        filter: "tailnum = \"N14228\" AND time_hour >= \"2013-07-01T00:00:00Z\" AND time_hour < \"2013-08-01T00:00:00Z\"",
        fields: &["time_hour", "carrier", "flight", "origin", "dest", "distance"],
        place: Beginning::First,
    },
    Scene {
        title: "All flights, newest first, 60 % of the way",
        filter: "",
        fields: &["time_hour", "carrier", "flight", "origin", "dest", "distance"],
        place: Beginning::Share("60%"),
    },
];

impl Scene {
    /// Returns the share of all rows at which the page is; `None` for the first and the last page.
    fn share(&self) -> Option<&'static str> {
        match self.place {
            Beginning::Share(share) => Some(share),
            Beginning::First | Beginning::Last => None,
        }
    }
}

/// Options of the demo.
#[derive(Debug)]
pub(crate) struct DemoRequest {
    pub(crate) place: Place,
    /// True to hide the progress of the load.
    pub(crate) quiet: bool,
    /// True to serve the web console at the end. On a terminal, the demo always does so.
    pub(crate) serve: bool,
}

/// Runs `recto demo`: creates the store if it does not exist, and shows pages of it.
pub(crate) async fn run(request: DemoRequest, console: &mut Console) -> Result<Exit> {
    let DemoRequest { place, quiet, serve } = request;
    let (session, own) = open(&place).await?;
    let address = place.address.to_string();
    let input_folder = if address == FOLDER { FOLDER } else { INPUT_FOLDER };
    let demo = Demo {
        session,
        address,
        folder: Path::new(input_folder),
        quiet,
    };
    let exit = show(demo, console).await?;
    match own {
        Some(own) if exit == Exit::Done && (serve || console.is_interactive()) => {
            serve_console(own, &place.address, console).await
        }
        _ => Ok(exit),
    }
}

/// Opens or creates the store of the demo. Also returns the local session, or `None` if the store
/// is a server's.
async fn open(place: &Place) -> Result<(Arc<dyn Session>, Option<LocalSession>)> {
    if let StoreAddress::Http(_) = place.address {
        return Ok((place.open_or_create().await?, None));
    }
    let recto = crate::opening::open(&place.address, OpenOptions::new().create().wait(place.wait)).await?;
    let own = LocalSession::new(recto);
    Ok((Arc::new(own.clone()), Some(own)))
}

/// Parameters with which the demo runs on an open store.
pub(crate) struct Demo<'a> {
    pub(crate) session: Arc<dyn Session>,
    /// Address of the store, as the printed commands show it.
    pub(crate) address: String,
    /// Folder of the demo's input file.
    pub(crate) folder: &'a Path,
    pub(crate) quiet: bool,
}

/// Shows the demo on an open store: applies the schema, loads the flights, and prints the pages.
pub(crate) async fn show(demo: Demo<'_>, console: &mut Console) -> Result<Exit> {
    let schema = apply_schema(&*demo.session).await?;
    let text = format!(
        "336,776 flights out of New York in 2013 ({} compressed), in one collection with four views",
        bytes(FLIGHTS.len() as u64)
    );
    console.line(console.paint(Tone::Strong, &text))?;
    let collection = collection_of(&schema, COLLECTION)?;
    for sort_order in collection.sort_orders() {
        let shown = console.paint(Tone::Dim, &sort_order.to_string());
        console.line(format_args!("  {:<12}  {shown}", sort_order.name()))?;
    }
    console.line("")?;
    if !load_flights(&demo, console).await? {
        return Ok(Exit::Interrupted);
    }
    for scene in &SCENES {
        console.line("")?;
        play(scene, &demo, collection, console).await?;
    }
    console.line("")?;
    say_what_next(&demo.address, console)?;
    Ok(Exit::Done)
}

/// Applies the demo's schema to the store. Accepts an empty store, or a store that already has the
/// schema. Rejects any other store without changing it.
async fn apply_schema(session: &dyn Session) -> Result<Schema> {
    let schema = Schema::parse(SCHEMA).expect("the demo's schema is right, as a test says");
    if session.describe().await?.generation != 0 {
        if session.schema().await?.to_toml() == schema.to_toml() {
            return Ok(schema);
        }
        return Err(Failure::new(
            Exit::Refused,
            "the store has collections that are not from the demo; nothing was changed",
        )
        .with_hint("name another store: recto demo --store ./another-folder"));
    }
    session
        .tools()?
        .apply(&schema, &recto::ApplyOptions::new(), &|_| {})
        .await?;
    Ok(schema)
}

/// Loads the flights unless they are loaded already. Returns `false` if the process got a signal to stop.
async fn load_flights(demo: &Demo<'_>, console: &mut Console) -> Result<bool> {
    let file = demo.folder.join(FILE);
    put_file(demo.folder, &file).map_err(|error| Failure::file("write", &file, &error))?;
    if !demo.quiet {
        console.flush()?;
        console.note("loading 336,776 flights, each with its entries in four views")?;
    }
    let request = LoadRequest {
        rejects: Some(free_rejects_path(&file)),
        file,
        collections: vec![COLLECTION.to_owned()],
        csv: CsvOptions {
            null: vec![NULL.to_owned()],
            ..CsvOptions::default()
        },
        ..LoadRequest::default()
    };
    let Some((report, elapsed)) = load(Arc::clone(&demo.session), request, demo.quiet, console).await? else {
        let stopped = console.err_paint(Tone::Warning, "stopped;");
        console.note(format_args!(
            "{stopped} loaded flights remain; run the same command again to continue"
        ))?;
        return Ok(false);
    };
    if report.already_loaded {
        console.line(format_args!(
            "{} the store already has the flights",
            console.paint(Tone::Good, "✓")
        ))?;
        return Ok(true);
    }
    let stored = report.collections.iter().map(|collection| {
        let entries = collection.views.iter().map(|view| view.entries);
        collection.rows_stored + entries.sum::<u64>()
    });
    let stored = stored.sum();
    let rate = per_second(stored, elapsed).map(|rate| format!(", {} rows/s", grouped(rate)));
    let done = console.paint(Tone::Good, "✓");
    console.line(format_args!(
        "{done} {} stored in {}{}",
        rows(stored),
        duration(elapsed),
        rate.unwrap_or_default()
    ))?;
    draw_collections(&report, console)?;
    Ok(true)
}

/// Returns the flights as a .gz file (RFC 1952), made of the compressed text of the .zip archive. A
/// program with only `recto demo` cannot load .zip files. Both formats compress text equally
/// (deflate).
fn packed_flights() -> Vec<u8> {
    // Header of a .gz file: magic number, method deflate, no flags, no time, unknown operating
    // system.
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let (crc, length) = (TEXT_CRC.to_le_bytes(), TEXT_BYTES.to_le_bytes());
    [&header[..], &FLIGHTS[DEFLATED], &crc, &length].concat()
}

/// Writes the demo's input file, unless a file with the same content exists. An interrupted write
/// leaves no incomplete input file.
fn put_file(folder: &Path, file: &Path) -> io::Result<()> {
    let flights = packed_flights();
    match std::fs::read(file) {
        Ok(held) if held == flights => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir_all(folder)?;
    let unfinished = folder.join(format!("{FILE}.unfinished"));
    std::fs::write(&unfinished, flights)?;
    std::fs::rename(unfinished, file)
}

/// Returns an unused path for the file of rejected flights. The demo never replaces an existing
/// file, which may belong to the user or to a demo with another store.
fn free_rejects_path(file: &Path) -> PathBuf {
    let path = |number: u32| match number {
        1 => file.with_file_name(format!("{FILE}.rejects.csv")),
        _ => file.with_file_name(format!("{FILE}.rejects-{number}.csv")),
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
    let mut paths = (1..=MAX_REJECT_FILES).map(path);
    // If every name is in use, return the first name, for which the load then reports an error.
    paths.find(is_free).unwrap_or_else(|| path(1))
}

/// Prints a page of the demo. After the last page, also prints the page that precedes it.
async fn play(scene: &Scene, demo: &Demo<'_>, collection: &Collection, console: &mut Console) -> Result<()> {
    let mut request = PageRequest {
        filter: scene.filter.to_owned(),
        page_size: Some(ROWS),
        last: scene.place == Beginning::Last,
        around: scene.share().map(str::to_owned),
        count: scene.share().map(|_| Count::Estimate),
        fields: scene.fields.iter().map(|&field| field.to_owned()).collect(),
        ..PageRequest::default()
    };
    console.line(console.paint(Tone::Strong, scene.title))?;
    console.line(console.paint(Tone::Hint, &command(&demo.address, scene)))?;
    let explained = demo.session.explain(COLLECTION, &request, false).await?;
    let shape = format!("{} of {}", explained.shape, explained.sort_order);
    let reply = demo.session.page(COLLECTION, &request).await?;
    draw_page(&reply, &request.fields, &shape, collection, console)?;
    if scene.place == Beginning::Last && !reply.previous_page_token.is_empty() {
        request.last = false;
        request.page_token = reply.previous_page_token;
        let reply = demo.session.page(COLLECTION, &request).await?;
        console.line("")?;
        console.line(console.paint(Tone::Hint, "… and the page before it, by previous_page_token"))?;
        draw_page(&reply, &request.fields, &shape, collection, console)?;
    }
    Ok(())
}

fn draw_page(
    reply: &PageReply,
    fields: &[String],
    shape: &str,
    collection: &Collection,
    console: &mut Console,
) -> Result<()> {
    let (lines, _) = View {
        collection,
        fields,
        sort_order: "",
        reply,
    }
    .table(console);
    for line in lines {
        console.line(line)?;
    }
    let footer = format!(
        "{} · {} · {}",
        rows(reply.records.len() as u64),
        printable(shape),
        cost(reply)
    );
    console.line(console.paint(Tone::Dim, &footer))?;
    if let Some(count) = &reply.row_count {
        console.line(console.paint(Tone::Dim, &count.in_words(reply.records.len())))?;
    }
    Ok(())
}

/// Returns the `recto page` command that shows the page of `scene`.
fn command(address: &str, scene: &Scene) -> String {
    let place = match scene.place {
        Beginning::First => String::new(),
        Beginning::Last => " --last".to_owned(),
        Beginning::Share(share) => format!(" --around {share} --count estimate"),
    };
    let filter = match scene.filter {
        "" => String::new(),
        filter => format!(" \\\n    --filter '{filter}'"),
    };
    format!(
        "$ recto page {COLLECTION} --store {}{place} --page-size {ROWS}{filter} \\\n    --fields {}",
        quoted(address),
        scene.fields.join(",")
    )
}

/// Quotes an address for a shell, if it contains characters that need quotes.
fn quoted(address: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "/._-:,@[]".contains(character);
    if !address.is_empty() && address.chars().all(plain) && !address.contains('[') {
        return address.to_owned();
    }
    format!("'{}'", address.replace('\'', r"'\''"))
}

fn say_what_next(address: &str, console: &mut Console) -> Result<()> {
    let store = quoted(address);
    let commands = [
        (
            "turn pages with n and p",
            format!("recto page flights --store {store} --filter 'origin = \"JFK\"'"),
        ),
        (
            "two carriers in one order",
            format!(
                "recto page flights --store {store} \\\n    --filter 'carrier = \"AA\" OR carrier = \"DL\"' \
                 --order-by 'time_hour desc'"
            ),
        ),
        (
            "the query plan of a page",
            format!("recto explain flights --store {store} --filter 'origin = \"EWR\" AND dest = \"SFO\"'"),
        ),
        (
            "every record, as NDJSON",
            format!("recto scan flights --store {store} | head -3"),
        ),
        (
            "the console, in a browser",
            format!("recto serve --store {store}"),
        ),
        ("a schema of your own", "recto init".to_owned()),
    ];
    let heading = if cfg!(feature = "full") {
        "Try next"
    } else {
        "Try next, after `cargo install --path crates/recto-cli`"
    };
    console.line(console.paint(Tone::Strong, heading))?;
    for (remark, command) in commands {
        console.line(console.paint(Tone::Dim, &format!("# {remark}")))?;
        console.line(command)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_of_earlier_demos_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        for name in ["flights.csv.gz.rejects.csv", "flights.csv.gz.rejects-2.csv"] {
            let free = free_rejects_path(&file);
            assert_eq!(free, folder.path().join(name));
            std::fs::write(free, "another store's").expect("a file");
        }
        let free = free_rejects_path(&file);
        assert_eq!(free, folder.path().join("flights.csv.gz.rejects-3.csv"));
    }

    #[test]
    fn an_address_is_quoted_for_the_shell_where_it_must_be() {
        assert_eq!(quoted("recto-demo"), "recto-demo");
        assert_eq!(
            quoted("cassandra://db1:9042,db2:9042/shop"),
            "cassandra://db1:9042,db2:9042/shop"
        );
        assert_eq!(quoted("my demo"), "'my demo'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("cassandra://[::1]:9042/ks"), "'cassandra://[::1]:9042/ks'");
    }
}
