//! Simulated readers that read lists page by page while processes change their rows.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use recto::schema::Schema;
use recto::{DynamicRecord, Page, PageQuery, Recto};
use recto_protocol::views::Version;
use serde_json::Value as Json;

use super::clock::Random;
use super::history::History;
use super::records::{COLLECTION, ChangeEffect, Fields, Place, RECORDS, RecordChange, STAYING};

/// Number of attempts to read a page before the reader gives up.
const TRIES: u32 = 5;
/// Pause of a reader before each attempt to read a page.
const PAUSE: Duration = Duration::from_millis(300);
/// Maximum number of rows of a page.
const MAX_PAGE_ROWS: u64 = 4;
/// Ids of the records that no process changes.
const STAYS: Range<i32> = RECORDS..RECORDS + STAYING;
/// Upper bound of the number of pages that any list has.
const MAX_PAGES: usize = 100;

/// List that a reader reads page by page: a filter, an order, and a view.
struct List {
    /// Statuses of the records in the list, in order. If there are two, their rows are merged. If
    /// empty, the list has records of any status.
    statuses: Vec<u8>,
    /// Note of the records in the list, or `None` for any note. A list by note has only records
    /// whose field `at` is set.
    note: Option<u8>,
    /// Name of the view that the query names. `None` if it names none.
    view: Option<&'static str>,
    /// True if the list is sorted by ascending `at`, false if by descending `at`.
    rises: bool,
    is_verified: bool,
    /// True if a record that moves may appear twice for a moment: its two view rows are in
    /// different buckets, and the page does not check them against the record.
    may_be_twice: bool,
    /// Number of rows of each page.
    rows: u32,
}

impl List {
    /// Returns a random list that the views of a schema can serve.
    fn drawn(random: &Random, schema: &Schema) -> Self {
        let drawn = random.below(5);
        let note = (drawn > 2).then(|| random.below(2) as u8);
        let mut statuses = match drawn {
            0 => vec![0],
            1 => vec![1],
            _ => vec![0, 1],
        };
        let views = &schema.collection(COLLECTION).unwrap().views;
        let is_changed = views.iter().any(|view| view.name == "by_place");
        let view = match (note, is_changed) {
            (None, _) => None,
            (Some(_), true) => {
                statuses = vec![random.below(2) as u8];
                Some("by_place")
            }
            (Some(_), false) => {
                statuses.clear();
                Some("by_note")
            }
        };
        let is_verified = view != Some("by_note");
        Self {
            statuses,
            note,
            view,
            may_be_twice: !is_verified && views.iter().any(|view| view.bucket.is_some()),
            rises: note.is_some() != is_changed,
            // Pages of the view `by_note` are not verified against the records.
            is_verified,
            rows: 1 + random.below(MAX_PAGE_ROWS) as u32,
        }
    }

    fn has(&self, place: &Place) -> bool {
        let is_of_status = |status: u8| self.statuses.contains(&status);
        let has_note = self.note.is_none() || (place.note == self.note && place.at.is_some());
        has_note && (self.statuses.is_empty() || place.status.is_some_and(is_of_status))
    }

    /// Returns the sort key of a record in the list, given its fields that determine its position.
    fn order(&self, id: i32, place: &Place) -> (bool, i32, i32) {
        let at = place.at.unwrap_or_default();
        (place.at.is_none(), if self.rises { at } else { -at }, id)
    }

    /// Returns the ids of the list's records that no process changes, in the order of the list.
    fn staying(&self) -> Vec<i32> {
        let mut ids: Vec<i32> = STAYS.filter(|id| self.has(&Place::of_staying(*id))).collect();
        ids.sort_by_key(|id| self.order(*id, &Place::of_staying(*id)));
        ids
    }

    fn query(&self, recto: &Recto) -> PageQuery<DynamicRecord> {
        let mut query = recto.dynamic(COLLECTION).unwrap().query();
        let is = |field: &str, which: u8| format!(r#"{field} = "{}""#, char::from(b'a' + which));
        let statuses: Vec<String> = self.statuses.iter().map(|one| is("status", *one)).collect();
        let mut filter = statuses.join(" OR ");
        if let Some(note) = self.note {
            let and = if filter.is_empty() { "" } else { " AND " };
            filter += &format!("{and}{}", is("note", note));
        }
        if let Some(view) = self.view {
            query = query.view(view);
        }
        if !self.is_verified {
            query = query.looking_at(&["id", "status", "at", "note"].map(str::to_owned));
        }
        query
            .filter(filter)
            .page_size(self.rows)
            .order_by(if self.rises { "at, id" } else { "at desc, id" })
    }
}

/// Simulated reader of random lists.
pub(crate) struct Reader {
    recto: Recto,
    history: Rc<History>,
    random: Random,
}

impl Reader {
    pub(crate) fn new(recto: Recto, history: Rc<History>, seed: u64) -> Self {
        let random = Random::new(seed ^ 0x4EAD);
        Self {
            recto,
            history,
            random,
        }
    }

    /// Reads a random list from one end to the other, unless a page fails too often. Returns
    /// whether the reader reached the end.
    pub(crate) async fn traverse(&self) -> bool {
        let list = List::drawn(&self.random, &self.recto.schema());
        let is_back = self.random.one_in(2);
        let query = list.query(&self.recto);
        let (mut found, mut token): (Vec<i32>, Option<String>) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let Some((page, ids)) = self.page(&list, &query, token.take(), is_back).await else {
                return false;
            };
            let place = if is_back { 0 } else { found.len() };
            found.splice(place..place, ids);
            let next = if is_back {
                page.previous_cursor()
            } else {
                page.next_cursor()
            };
            let Some(next) = next else {
                found.retain(|id| STAYS.contains(id));
                if found != list.staying() {
                    let stay = list.staying();
                    let wrong = format!("{found:?} were read of {stay:?}, backwards: {is_back}");
                    self.history.is_wrong(wrong);
                }
                return true;
            };
            token = Some(next.to_string());
        }
        self.history.is_wrong("a list does not end".to_owned());
        false
    }

    /// Reads a page. Returns the page and the ids of its records, or `None` if it failed too often.
    async fn page(
        &self,
        list: &List,
        query: &PageQuery<DynamicRecord>,
        token: Option<String>,
        is_back: bool,
    ) -> Option<(Page<DynamicRecord>, Vec<i32>)> {
        for _ in 0..TRIES {
            tokio::time::sleep(PAUSE).await;
            let known = self.history.known(list.is_verified);
            let query = query.clone();
            let page = match &token {
                None if is_back => query.last(list.rows).await,
                None => query.await,
                Some(token) => query.page_token(token).await,
            };
            let Ok(page) = page else { continue };
            let shown: Vec<_> = page.iter().map(shown).collect();
            for (index, (id, place)) in shown.iter().enumerate() {
                let version = Version(page.version(index).unwrap());
                self.history.shows(*id, version, *place, &known);
            }
            let order: Vec<_> = shown.iter().map(|(id, place)| list.order(*id, place)).collect();
            let mut ids: Vec<i32> = shown.iter().map(|(id, _)| *id).collect();
            if !order.is_sorted() || !shown.iter().all(|(_, place)| list.has(place)) {
                self.history.is_wrong(format!("a page in no order: {shown:?}"));
            }
            let in_order = ids.clone();
            ids.sort_unstable();
            ids.dedup();
            if ids.len() < in_order.len() && !list.may_be_twice {
                self.history.is_wrong(format!("a record twice: {shown:?}"));
            }
            return Some((page, in_order));
        }
        None
    }
}

/// Returns the id of a record, and its fields that determine its position in the views.
fn shown(record: &DynamicRecord) -> (i32, Place) {
    let json = Json::from(record.to_json());
    let number = |field: &str| json.get(field)?.as_i64().map(|number| number as i32);
    let letter = |field: &str| Some(json.get(field)?.as_str()?.as_bytes()[0] - b'a');
    let place = Place {
        status: letter("status"),
        at: number("at"),
        note: letter("note"),
    };
    (number("id").unwrap(), place)
}

/// Stores a record that no process changes later.
pub(crate) async fn put_staying(recto: &Recto, history: &History, id: i32) {
    let place = Place::of_staying(id);
    let asked = RecordChange::new(id, ChangeEffect::Put(Fields::at(place)));
    history.asks(id, Some(place));
    let version = Version(asked.ask(recto).await.unwrap().version);
    history.was(id, version, Some(place), true);
}
