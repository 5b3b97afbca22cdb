//! Recto as a compared program, through its public API.

use std::hint::black_box;
use std::path::Path;

use recto::{Collection, OpenOptions, PageQuery, Recto, StoreAddress};
use tokio::runtime::Runtime;

use super::{Filter, Peer, Question, Start};
use crate::flights::{CARRIER, CARRIERS, Flight};

/// Number of rows in each page that is read to reach the depth at which the measured pages start.
const STRIDE_ROWS: u32 = 1_000;

/// Open Recto store of flights, with an async runtime that has one thread.
pub(crate) struct Ours {
    pub(crate) runtime: Runtime,
    pub(crate) recto: Recto,
    pub(crate) flights: Collection<Flight>,
    /// True if reading a page includes encrypting the cursor at its end. Programs that show pages
    /// need this cursor for the next page.
    pub(crate) seal: bool,
    /// Queries planned so far, because a program also plans a query only once.
    planned: Vec<(Question, PageQuery<Flight>)>,
}

/// Creates a runtime that uses only the caller's thread.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Returns the address of the embedded store in a folder.
pub(crate) fn address(folder: &Path) -> StoreAddress {
    StoreAddress::Embedded(folder.to_owned())
}

impl Ours {
    /// Opens the store in a folder, with a cache of `cache_bytes` bytes.
    pub(crate) fn open(folder: &Path, cache_bytes: u64) -> Self {
        let runtime = runtime();
        let options = OpenOptions::new()
            .create()
            .cache_bytes(usize::try_from(cache_bytes).unwrap());
        let recto = runtime.block_on(async {
            let recto = Recto::open_with(&address(folder), options).await.unwrap();
            recto
                .apply(&recto::schema_of([<Flight as recto::Record>::collection()]))
                .await
                .unwrap();
            recto
        });
        Self::of(recto, runtime)
    }

    /// Returns another handle to the same open store, for use on another thread.
    pub(crate) fn beside(&self) -> Self {
        Self::of(self.recto.clone(), runtime())
    }

    pub(crate) fn of(recto: Recto, runtime: Runtime) -> Self {
        let flights = recto.collection::<Flight>().unwrap();
        Self {
            runtime,
            recto,
            flights,
            seal: true,
            planned: Vec::new(),
        }
    }

    /// Returns the query for a page, planned at its first use.
    pub(crate) fn query(&mut self, question: &Question) -> PageQuery<Flight> {
        if let Some((_, query)) = self.planned.iter().find(|(known, _)| known == question) {
            return query.clone();
        }
        let query = self
            .flights
            .query()
            .filter(filter(question))
            .page_size(question.rows);
        let query = match question.filter {
            Filter::AnyOf => query.order_by("time_hour desc"),
            _ => query,
        };
        self.runtime.block_on(query.clone().into_future()).unwrap();
        self.planned.push((*question, query.clone()));
        query
    }

    /// Returns `count` rows at which measured pages start. The first is `depth` rows after the
    /// beginning, and each is `apart` rows after the previous one.
    pub(crate) fn starts(&mut self, question: &Question, depth: u64, count: usize, apart: u32) -> Vec<Start> {
        let query = self.query(question);
        self.runtime.block_on(async {
            let mut page = query.clone().first(STRIDE_ROWS).await.unwrap();
            let mut before = 0;
            let mut starts = Vec::new();
            loop {
                for (index, row) in page.items().iter().enumerate() {
                    let place = before + index as u64 + 1;
                    if place >= depth && (place - depth).is_multiple_of(u64::from(apart)) {
                        starts.push(Start {
                            cursor: page.cursor(index).as_str().to_owned(),
                            time_hour: row.time_hour.0,
                            carrier: row.carrier.clone(),
                            flight: row.flight,
                        });
                    }
                    if starts.len() == count {
                        return starts;
                    }
                }
                before += page.len() as u64;
                let next = page.next_cursor().expect("the partition is deep enough");
                page = query.clone().first(STRIDE_ROWS).after(next).await.unwrap();
            }
        })
    }
}

fn filter(question: &Question) -> String {
    match question.filter {
        Filter::Equal => format!("carrier = \"{CARRIER}\""),
        Filter::Range => {
            let moment = |milliseconds: i64| jiff::Timestamp::from_millisecond(milliseconds).unwrap();
            let (from, to) = question.span;
            format!(
                "carrier = \"{CARRIER}\" AND time_hour >= \"{}\" AND time_hour < \"{}\"",
                moment(from),
                moment(to)
            )
        }
        Filter::AnyOf => CARRIERS
            .map(|carrier| format!("carrier = \"{carrier}\""))
            .join(" OR "),
    }
}

impl Peer for Ours {
    fn pages(
        &mut self,
        question: &Question,
        starts: &[Start],
        at_end: bool,
        take: &mut dyn FnMut(&[Flight]),
    ) {
        let query = self.query(question);
        let seal = self.seal;
        self.runtime.block_on(async {
            for start in starts {
                let query = query.clone();
                let query = match (question.backward, at_end) {
                    (false, true) => query.first(question.rows),
                    (true, true) => query.last(question.rows),
                    (false, false) => query.first(question.rows).after(start.cursor.as_str()),
                    (true, false) => query.last(question.rows).before(start.cursor.as_str()),
                };
                let page = query.await.unwrap();
                if seal {
                    black_box(if question.backward {
                        page.previous_cursor()
                    } else {
                        page.next_cursor()
                    });
                }
                take(page.items());
            }
        });
    }
}
