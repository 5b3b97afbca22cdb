//! Compared servers of pages over HTTP: the URLs of their pages, and a check that all servers
//! return the same rows.

use std::net::SocketAddr;
use std::rc::Rc;

use serde_json::Value as Json;

use super::Site;
use crate::flights::CARRIER;
use crate::peers::http::generator::{Answer, get, request};
use crate::peers::http::memory::{self, Kept};
use crate::peers::http::server::Server;

/// Number of successive pages, from the newest flight on, that the measured requests cycle through.
const PAGES: usize = 64;
const PAGE_ROWS: usize = 20;
/// Names of headers that a server generates for each response, so that they are not recorded.
const OWN_HEADERS: [&str; 4] = ["connection", "content-length", "date", "transfer-encoding"];

/// Running server that is measured, with the requests to send.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) server: Server,
    pub(super) requests: Rc<Vec<Vec<u8>>>,
    /// Average size of a response with its headers, in bytes.
    pub(super) bytes: f64,
}

/// Page that a server returned, with the URL path that requested it.
struct Given {
    target: String,
    answer: Answer,
    /// Time in milliseconds and flight number of each flight on the page.
    rows: Vec<(i64, i64)>,
}

/// How to request pages from one kind of server: the path of the first page, and functions that
/// find the rows and the path of the next page in a response.
struct Dialect {
    first: String,
    rows: fn(&Json) -> Option<&Vec<Json>>,
    next: fn(&Json) -> Option<String>,
}

/// Starts all servers to compare. Recto is the first in the result, and the server with responses
/// in memory is the second.
pub(super) fn start(site: &Site) -> Result<Vec<Contender>, String> {
    let recto = site.serve()?;
    let pages = walk(recto.address, &ours())?;
    let axum = memory::start(&site.folder, &pages.iter().map(kept).collect::<Vec<_>>())?;
    let copies = pages
        .iter()
        .map(|page| again(axum.address, page))
        .collect::<Result<Vec<_>, _>>()?;
    let mut all = vec![
        contender("recto serve", recto, &pages),
        contender("axum", axum, &copies),
    ];
    if let Some(python) = &site.python {
        let fastapi = python.fastapi(&site.sqlite(), &site.folder)?;
        let found = walk(fastapi.address, &by_hand())?;
        compare("FastAPI", &pages, &found)?;
        all.push(contender("FastAPI", fastapi, &found));
        let datasette = python.datasette(&site.sqlite(), &site.folder)?;
        let found = walk(datasette.address, &datasettes())?;
        compare("Datasette", &pages, &found)?;
        all.push(contender("Datasette", datasette, &found));
    }
    Ok(all)
}

/// Returns the measured requests for another `recto serve` process, whose page tokens differ.
pub(super) fn requests_of(server: &Server) -> Result<Rc<Vec<Vec<u8>>>, String> {
    Ok(requests(server.address, &walk(server.address, &ours())?))
}

fn contender(name: &'static str, server: Server, pages: &[Given]) -> Contender {
    let bytes: usize = pages.iter().map(|page| page.answer.bytes).sum();
    Contender {
        name,
        requests: requests(server.address, pages),
        bytes: (bytes / pages.len()) as f64,
        server,
    }
}

fn requests(address: SocketAddr, pages: &[Given]) -> Rc<Vec<Vec<u8>>> {
    Rc::new(pages.iter().map(|page| request(address, &page.target)).collect())
}

fn ours() -> Dialect {
    fn first() -> String {
        format!(
            "/v1/collections/flights/records?filter=carrier%20%3D%20%22{CARRIER}%22&page_size={PAGE_ROWS}"
        )
    }
    Dialect {
        first: first(),
        rows: |page| page["records"].as_array(),
        next: |page| {
            let token = page["next_page_token"].as_str()?;
            Some(format!("{}&page_token={token}", first()))
        },
    }
}

fn by_hand() -> Dialect {
    fn first() -> String {
        format!("/flights?carrier={CARRIER}&page_size={PAGE_ROWS}")
    }
    Dialect {
        first: first(),
        rows: |page| page["records"].as_array(),
        next: |page| Some(format!("{}&after={}", first(), page["next"].as_str()?)),
    }
}

fn datasettes() -> Dialect {
    fn after(moment: i64, flight: i64) -> String {
        format!("/flights/page.json?_shape=objects&carrier={CARRIER}&moment={moment}&after={flight}")
    }
    Dialect {
        first: after(i64::MAX, 0),
        rows: |page| page["rows"].as_array(),
        next: |page| {
            let (moment, flight) = key(page["rows"].as_array()?.last()?)?;
            Some(after(moment, flight))
        },
    }
}

/// Requests successive pages as a client does, following the link to the next page in each
/// response.
fn walk(address: SocketAddr, dialect: &Dialect) -> Result<Vec<Given>, String> {
    let mut pages: Vec<Given> = Vec::new();
    let mut target = dialect.first.clone();
    while pages.len() < PAGES {
        let (answer, json) = ask(address, &target)?;
        let wrong = || format!("{target} has no page of {PAGE_ROWS} flights that another page follows");
        let rows = (dialect.rows)(&json).ok_or_else(wrong)?;
        let rows: Vec<_> = rows.iter().filter_map(key).collect();
        if rows.len() != PAGE_ROWS {
            return Err(wrong());
        }
        let next = (dialect.next)(&json).ok_or_else(wrong)?;
        pages.push(Given {
            target: std::mem::replace(&mut target, next),
            answer,
            rows,
        });
    }
    Ok(pages)
}

/// Requests a page from the server of recorded responses. Checks that the body equals the recorded
/// one.
fn again(address: SocketAddr, page: &Given) -> Result<Given, String> {
    let (answer, _) = ask(address, &page.target)?;
    if answer.body != page.answer.body {
        return Err(format!("{}: the copy differs", page.target));
    }
    Ok(Given {
        target: page.target.clone(),
        answer,
        rows: page.rows.clone(),
    })
}

fn ask(address: SocketAddr, target: &str) -> Result<(Answer, Json), String> {
    let answer = get(address, target).map_err(|error| format!("{target}: {error}"))?;
    let text = String::from_utf8_lossy(&answer.body);
    if answer.status != 200 {
        return Err(format!("{target} was answered with {}: {text}", answer.status));
    }
    let json = serde_json::from_str(&text).map_err(|error| format!("{target}: {error}"))?;
    Ok((answer, json))
}

/// Returns the time of a flight in milliseconds, and its number. The time in `row` is in
/// milliseconds or in the form of RFC 3339.
fn key(row: &Json) -> Option<(i64, i64)> {
    let moment = match &row["time_hour"] {
        Json::String(text) => text.parse::<jiff::Timestamp>().ok()?.as_millisecond(),
        other => other.as_i64()?,
    };
    Some((moment, row["flight"].as_i64()?))
}

fn compare(name: &str, ours: &[Given], theirs: &[Given]) -> Result<(), String> {
    let rows = |pages: &[Given]| -> Vec<_> { pages.iter().map(|page| page.rows.clone()).collect() };
    if rows(ours) == rows(theirs) {
        return Ok(());
    }
    Err(format!("{name} has other pages than Recto"))
}

fn kept(page: &Given) -> Kept {
    let headers = page.answer.headers.iter();
    Kept {
        target: page.target.clone(),
        headers: headers
            .filter(|(name, _)| !OWN_HEADERS.contains(&name.as_str()))
            .cloned()
            .collect(),
        body: String::from_utf8_lossy(&page.answer.body).into_owned(),
    }
}
