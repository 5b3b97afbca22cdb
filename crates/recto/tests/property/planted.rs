//! A store with a defect that is there to be found: that a failure is found, made simple, and printed as
//! a test that compiles and says the same.

use std::sync::Arc;

use async_trait::async_trait;
use recto::store::{
    Atomicity, Cas, CasOutcome, Limits, PartitionWrite, PointRead, ReadOptions, RowsRead, ScanPosition,
    ScanRead, Snapshot, Store, StoreError, StoreKind, TableOutcome, TokenRange, TransactionOutcome,
    WriteOptions, WriteOutcome,
};
use recto_model::table::ReadDirection;
use recto_model::{Cells, RowSet, Slice, Table};
use recto_testkit::generate::{Case, Move, Place};

use super::common::{Kind, Scope, run};
use super::drawn::{Ground, message, shrink, test};
use super::guarantee::Guarantee;

/// The tests of this module.
pub(crate) const TESTS: usize = 2;
/// The row that a slice read backwards loses.
const LOST: usize = 2;

/// A store that loses the third row of what it reads backwards.
pub(crate) struct Planted(Arc<dyn Store>);

struct PlantedSnapshot(Arc<dyn Snapshot>);

impl Planted {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self(inner)
    }
}

fn lose(slice: &Slice, mut read: RowsRead) -> RowsRead {
    if slice.direction == ReadDirection::Backward {
        let mut rows = RowSet::new(slice.table.columns().len());
        let kept = read.rows.iter().enumerate().filter(|(index, _)| *index != LOST);
        kept.for_each(|(_, row)| rows.push_row(row));
        read.rows = rows;
    }
    read
}

#[async_trait]
impl Snapshot for PlantedSnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        Ok(lose(slice, self.0.slice(slice, options).await?))
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.0.get(read, options).await
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.0.get_statics(table, partition, options).await
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        self.0.token_ranges(table, pieces).await
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        self.0.scan(table, range, after, limit, options).await
    }

    async fn partitions(
        &self,
        table: &Arc<Table>,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        self.0.partitions(table, after, limit, options).await
    }
}

#[async_trait]
impl Store for Planted {
    fn kind(&self) -> StoreKind {
        self.0.kind()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        Ok(Arc::new(PlantedSnapshot(self.0.snapshot()?)))
    }

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        self.0.write(write, options).await
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        self.0.write_many(writes, atomicity, options).await
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        self.0.cas(cas, options).await
    }

    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        self.0.transact(conditional, plain, options).await
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.0.create_table(table).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        self.0.add_columns(recorded, table).await
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.0.drop_table(name).await
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.0.empty_table(table).await
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        self.0.list_tables().await
    }

    fn describe_slice(&self, slice: &Slice) -> Vec<String> {
        self.0.describe_slice(slice)
    }
}

/// What stands in `pasted.rs` is what is printed.
fn assert_is_pasted(printed: &str) {
    let pasted = include_str!("pasted.rs");
    assert!(
        pasted.contains(printed),
        "pasted.rs has another text:\n\n{printed}"
    );
}

/// Rows, fields, conditions and pages of which the defect needs few.
fn large() -> Case {
    let mut case = Case::declared(
        r#"
[collection.large]
fields = { v = "text", p = "int", q = "text", a = "bigint", b = "double", c = "blob" }
key = ["p", "q", "a", "b", "c"]
partition = ["p", "q"]
order = ["-a", "b", "-c"]
writes = "append"
"#,
    );
    for number in 0..40 {
        let (p, a, b) = (
            number % 2,
            9_000_000_000 + i64::from(number / 8),
            f64::from(number) / 3.0,
        );
        case = case.row(&format!(
            r#"{{"p": {p}, "q": "quite a long text", "a": {a}, "b": {b}, "c": "", "v": "{number}"}}"#
        ));
    }
    case.any_of("p", &["0", "1"])
        .any_of("q", &["quite a long text", "and another"])
        .compare("a", ">=", "9000000001")
        .sort(&["-a"])
        .page(Move {
            size: 8,
            row: 77,
            both_edges: true,
            ..Move::default()
        })
        .put(r#"{"p": 0, "q": "quite a long text", "a": 9000000003, "b": 1.5, "c": ""}"#)
        .page(Move {
            size: 5,
            place: Place::Before,
            row: 20,
            by_row: true,
            ..Move::default()
        })
        .delete(17)
}

#[test]
fn a_planted_defect_is_found_made_simple_and_printed() {
    let _scope = Scope::new(&super::TESTS);
    run(async {
        let planted = Ground {
            planted: true,
            ..Ground::new(Kind::Embedded)
        };
        let sound = Ground {
            planted: false,
            ..planted
        };
        let guarantee = Guarantee::AfterAndBefore;
        assert!(sound.check(guarantee, &large()).await.is_ok());
        let failure = planted.check(guarantee, &large()).await.unwrap_err();
        let (case, failure) = shrink(planted, guarantee, large(), failure).await;
        assert!(
            case.rows.len() <= 5,
            "{} rows:\n{}",
            case.rows.len(),
            test(Kind::Embedded, guarantee, &case, 0)
        );
        assert_eq!((case.collection.fields.len(), case.moves.len()), (2, 1));
        // The defect is still what fails, and nothing else.
        assert!(sound.check(guarantee, &case).await.is_ok());
        let printed = test(Kind::Embedded, guarantee, &case, 0);
        assert!(message(Kind::Embedded, guarantee, 0, &case, &failure).contains(&printed));
        assert_is_pasted(&printed);
    });
}

/// Everything that a case can have, as a failure would print it.
#[test]
fn all_of_a_case_is_printed() {
    let _scope = Scope::new(&super::TESTS);
    let case = Case::declared(
        r#"
[collection.all]
fields = { p = "int", q = "text", a = "text", b = "decimal", c = "timestamp", v = "list<int>" }
key = ["p", "q", "a", "b", "c"]
partition = ["p", "q"]
order = ["a", "-b"]
writes = "overwrite"
"#,
    )
    .row(r##"{"p":1,"q":"r","a":"a\"#\u0000\u00e9","b":"0.1","c":"2024-01-01T00:00:00.000Z","v":[1,2]}"##)
    .row(r#"{"p":2,"q":"s","a":"a","b":"-1E+30","c":"1969-12-31T23:59:59.999Z"}"#)
    .any_of("p", &["1", "2", "3"])
    .any_of("q", &["r", "s"])
    .starts_with("a", "a")
    .compare("a", "<", "b\\")
    .tuple(&["a", "b", "c"], ">", &["a", "-5", "1970-01-01T00:00:00.000Z"])
    .compare("v", "=", "[1,2]")
    .sort(&["-p", "a"])
    .allow_residual()
    .built()
    .page(Move {
        size: 3,
        place: Place::From,
        row: 7,
        backwards: true,
        by_row: true,
        both_edges: true,
        scan_budget: 2,
        byte_budget: 300,
        ..Move::default()
    })
    .from(&["2", "a"])
    .put(r#"{"p":3,"q":"r","a":"ab","b":"2","c":"2024-01-01T00:00:00.000Z"}"#)
    .delete(1);
    assert_is_pasted(&test(Kind::Cassandra, Guarantee::EveryRowOnce, &case, 1));
}
