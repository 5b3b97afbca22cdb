//! Phase: pages of records that match filters on several fields, read in three ways:
//!
//! - by an intersection: concurrent reads of several views, each of which serves one filter
//! - by one composite view that serves all filters
//! - by a filter scan of a view that serves one filter

use std::fs;
use std::path::Path;

use recto::session::PageCost;
use recto::{Collection, DynamicRecord, Recto, StoreAddress};
use tokio::runtime::Runtime;

use super::stores;
use crate::measure::{Contender, interleaved};
use crate::peers::ours::address;
use crate::report::{Section, Table, Target};
use crate::world::World;

const ROWS: u64 = 200_000;
const ROWS_ON_CASSANDRA: u64 = 100_000;
const QUICK_ROWS: u64 = 20_000;
const PAGE: u32 = 50;
const ROUNDS: usize = 15;
/// Number of fields, each of which has its own view. A query has at most this many filters.
const FIELDS: usize = 4;
/// Values for which filters search: label, value, and number of records per thousand with that
/// value in a field. The fields are independent of each other.
const SHARES: [(&str, &str, u64); 3] = [("50 %", "half", 500), ("5 %", "some", 50), ("0.5 %", "few", 5)];
/// Value that no record has in two fields: label, value, and a number of consecutive records. For
/// each field, one of these records has the value in that field.
const NEVER_TOGETHER: (&str, &str, u64) = ("none", "lone", 40);
/// Maximum number of rows that a query reads for one page. A filter scan that reaches it returns a
/// short page, and continues with the next page.
const SCAN_BUDGET: u64 = 20_000;

/// Open store with two collections of the same records: `apart` has a view for each field, and
/// `composite` has views for the first 2, 3 and 4 fields together.
struct Records {
    runtime: Runtime,
    recto: Recto,
    apart: Collection<DynamicRecord>,
    composite: Collection<DynamicRecord>,
}

pub(super) fn embedded(world: &mut World) -> Result<Section, String> {
    let folder = world.folder.join("intersect");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let section = measure(world, &address(&folder.join("store")), ("embedded", ROWS))?;
    fs::remove_dir_all(&folder).unwrap();
    Ok(Section {
        title: "Several filters, with a view for each".to_owned(),
        ..section
    })
}

pub(super) fn cassandra(world: &mut World) -> Result<Section, String> {
    let store = StoreAddress::Cassandra(Box::new(stores::cassandra(world, "intersect")));
    let section = measure(world, &store, ("Cassandra", ROWS_ON_CASSANDRA))?;
    Ok(Section {
        title: "Several filters on Cassandra, with a view for each".to_owned(),
        ..section
    })
}

fn measure(world: &mut World, store: &StoreAddress, (name, rows): (&str, u64)) -> Result<Section, String> {
    let rows = if world.arguments.quick { QUICK_ROWS } else { rows };
    world.progress.say("loading");
    let records = Records::open(store, &world.folder, rows)?;
    let mut section = Section {
        text: format!(
            "The newest {PAGE} of {rows} records that match filters on 2, 3 or 4 fields. Each filter matches 50 %, 5 % or \
             0.5 % of the records at random. In the case \"none\", no record matches two filters. *Composite* is one view of \
             these fields. *Intersected* combines views of one field each. *Scanned* is the view of the first field, whose \
             rows are filtered."
        ),
        ..Section::default()
    };
    let mut times = Table::new(
        "",
        &[
            "page, µs",
            "composite",
            "intersected",
            "scanned",
            "intersected / composite",
            "scanned / intersected",
        ],
    );
    let mut costs = Table::new(
        "Cost of a page",
        &[
            "page",
            "records found",
            "rows, composite",
            "rows, intersected",
            "seeks, intersected",
            "rows, scanned",
            "rows that match one filter",
        ],
    );
    let rounds = world.arguments.rounds(ROUNDS);
    let shares = SHARES.iter().copied();
    let all = shares.chain([NEVER_TOGETHER]);
    for (share, value, of) in all {
        for fields in 2..=FIELDS {
            let label = format!("{share}, {fields} fields");
            world.progress.say(&label);
            let filter = filter(value, fields);
            let (found, ratio) =
                records.compare(&filter, fields, rounds, (&label, &mut times, &mut costs), {
                    if share == NEVER_TOGETHER.0 {
                        rows / of
                    } else {
                        rows * of / 1_000
                    }
                });
            if share == "50 %" {
                let what = format!("{name}, page of {PAGE}, {label}: intersected / composite");
                section.targets.push(Target::at_most(what, 3.0, ratio));
            }
            assert!(
                share != NEVER_TOGETHER.0 || found == 0,
                "no record has it in two fields"
            );
        }
    }
    section.tables.extend([times, costs]);
    Ok(section)
}

fn filter(value: &str, fields: usize) -> String {
    let each: Vec<String> = (1..=fields)
        .map(|field| format!("f{field} = \"{value}\""))
        .collect();
    each.join(" AND ")
}

fn schema() -> String {
    let collection = |name: &str, views: String| {
        format!(
            "[collection.{name}]\nfields = {{ id = \"bigint\", at = \"bigint\", f1 = \"text\", f2 = \"text\", f3 = \"text\", f4 = \"text\" }}\n\
             key = [\"id\"]\nwrites = \"append\"\n{views}\n"
        )
    };
    let view = |name: &str, of: &str, fields: &[usize]| {
        let partition: Vec<String> = fields.iter().map(|field| format!("\"f{field}\"")).collect();
        format!(
            "[collection.{name}.view.{of}]\npartition = [{}]\norder = [\"-at\"]\n",
            partition.join(", ")
        )
    };
    let apart = (1..=FIELDS).map(|field| view("apart", &format!("by_f{field}"), &[field]));
    let all: Vec<usize> = (1..=FIELDS).collect();
    let composite = (2..=FIELDS).map(|count| view("composite", &format!("by_{count}"), &all[..count]));
    collection("apart", apart.collect()) + &collection("composite", composite.collect())
}

/// Returns the value of a field in the record `id`, which is the same in every run.
fn value(id: u64, field: u64) -> &'static str {
    let (_, lone, turn) = NEVER_TOGETHER;
    let place = id % turn;
    if place.is_multiple_of(turn / FIELDS as u64) {
        return if place / (turn / FIELDS as u64) == field {
            lone
        } else {
            "rest"
        };
    }
    // Compute the value with SplitMix64, a pseudorandom function, so that every run stores the same
    // records.
    let mut bits = (id * FIELDS as u64 + field).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let mut drawn = (bits ^ (bits >> 31)) % 1_000;
    for (_, value, of) in SHARES {
        if drawn < of {
            return value;
        }
        drawn -= of;
    }
    "rest"
}

impl Records {
    fn open(store: &StoreAddress, folder: &Path, rows: u64) -> Result<Self, String> {
        let runtime = stores::runtime();
        let recto = stores::open(&runtime, store, Some(&schema()))?;
        let line = |id| {
            let [f1, f2, f3, f4] = [0, 1, 2, 3].map(|field| value(id, field));
            format!("{id},{id},{f1},{f2},{f3},{f4}")
        };
        let file = folder.join("intersect.csv");
        let file = stores::csv(file, "id,at,f1,f2,f3,f4", (0..rows).map(line));
        for name in ["apart", "composite"] {
            stores::load(&runtime, &recto, &file, name)?;
        }
        fs::remove_file(&file).unwrap();
        Ok(Self {
            apart: recto.dynamic("apart").unwrap(),
            composite: recto.dynamic("composite").unwrap(),
            recto,
            runtime,
        })
    }

    /// Reads the newest matching records, in as many pages as the row budget requires. Returns the
    /// number of records and the total cost.
    fn newest(&self, list: &Collection<DynamicRecord>, filter: &str, view: &str) -> (usize, PageCost) {
        let query = list
            .query()
            .filter(filter)
            .order_by("-at")
            .scan_budget(SCAN_BUDGET);
        let query = if view.is_empty() {
            query
        } else {
            query.view(view).allow_filter_scan()
        };
        self.runtime.block_on(async {
            let (mut found, mut cost, mut cursor) = (0, PageCost::default(), None::<String>);
            loop {
                let query = query.clone().page_size(PAGE - found as u32);
                let page = match &cursor {
                    None => query.await.unwrap(),
                    Some(cursor) => query.after(cursor.as_str()).await.unwrap(),
                };
                found += page.len();
                cost.rows_read += page.cost().rows_read;
                cost.seeks += page.cost().seeks;
                match page.next_cursor() {
                    Some(next) if found < PAGE as usize => cursor = Some(next.to_string()),
                    _ => return (found, cost),
                }
            }
        })
    }

    /// Adds a row to both tables: times as a multiple of the time with a composite view, and costs.
    fn compare(
        &self,
        filter: &str,
        fields: usize,
        rounds: usize,
        (label, times, costs): (&str, &mut Table, &mut Table),
        of_one_filter: u64,
    ) -> (usize, f64) {
        let of_all = format!("by_{fields}");
        let ways = [
            ("composite", &self.composite, of_all.as_str()),
            ("intersected", &self.apart, ""),
            ("scanned", &self.apart, "by_f1"),
        ];
        let found = ways.map(|(_, list, view)| self.newest(list, filter, view));
        assert!(
            found.iter().all(|(count, _)| *count == found[0].0),
            "{label}: all find the same"
        );
        let mut contenders = ways.map(|(name, list, view)| {
            Contender::new(name, move || {
                self.newest(list, filter, view);
                1
            })
        });
        let measured = interleaved(&mut contenders, rounds);
        let ratio = measured[1].over(&measured[0]);
        let medians = measured.iter().map(crate::measure::Measured::median);
        let ratios = [ratio, measured[2].over(&measured[1])];
        times.push(label, medians.chain(ratios).map(Some));
        let [(count, composite), (_, intersected), (_, scanned)] = found;
        let figures = [
            count as u64,
            composite.rows_read,
            intersected.rows_read,
            intersected.seeks.into(),
            scanned.rows_read,
            of_one_filter,
        ];
        costs.push(label, figures.map(|figure| Some(figure as f64)));
        (count, ratio)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let _ = self.runtime.block_on(self.recto.close());
    }
}
