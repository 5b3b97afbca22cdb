//! Stored data of the tests: three collections with the same rows in different sort orders.

use recto::types::Timestamp;
use recto::{Record, Recto};

/// Number of tenants. The first tenant has the most rows.
const TENANTS: i32 = 8;
/// Number of rows of the first tenant.
const FIRST_TENANT_ROWS: i32 = 2_400;
/// Number of rows of each other tenant. It is so small that 1,000 rows in the order of tenants
/// belong to several tenants.
const OTHER_TENANT_ROWS: i32 = 330;
/// Factor by which the times between the rows of other tenants are longer than those of the first
/// tenant. All tenants thereby span about the same period.
const OTHER_TENANT_STEP: i32 = 7;
/// Number of rows with the same time. A cursor is then between rows that differ only in `id`.
const ROWS_PER_MOMENT: i32 = 3;
/// Number of rows that one batch stores.
const CHUNK_ROWS: usize = 500;

macro_rules! collection {
    ($(#[$doc:meta])* $name:ident, $($attribute:tt)*) => {
        $(#[$doc])*
        #[derive(Debug, Record)]
        #[record(partition = ["tenant"], writes = "append", $($attribute)*)]
        pub(crate) struct $name {
            tenant: String,
            kind: String,
            at: Timestamp,
            id: i32,
            amount: f64,
            note: Option<String>,
        }

        impl $name {
            fn new(tenant: i32, number: i32) -> Self {
                let step = if tenant == 0 { 1 } else { OTHER_TENANT_STEP };
                Self {
                    tenant: format!("t{tenant}"),
                    kind: format!("k{:02}", number % 20),
                    at: Timestamp(1_700_000_000_000 + i64::from(number / ROWS_PER_MOMENT * step) * 60_000),
                    id: number,
                    amount: f64::from(number * 37 % 1_000),
                    note: (number % 2 == 0).then(|| format!("note {:04}", number % 97)),
                }
            }

            /// Stores all rows of the collection.
            async fn store(recto: &Recto) {
                let rows: Vec<Self> = (0..TENANTS)
                    .flat_map(|tenant| {
                        let rows = if tenant == 0 { FIRST_TENANT_ROWS } else { OTHER_TENANT_ROWS };
                        (0..rows).map(move |number| Self::new(tenant, number))
                    })
                    .collect();
                let collection = recto.collection::<Self>().unwrap();
                for chunk in rows.chunks(CHUNK_ROWS) {
                    let mut batch = recto.batch();
                    batch.each_for_itself();
                    for row in chunk {
                        batch.put(&collection, row).unwrap();
                    }
                    batch.commit().await.unwrap();
                }
            }
        }
    };
}

collection!(
    /// Readings, whose sort order has one direction.
    Reading, collection = "readings", key = ["tenant", "at", "id"], order = ["at", "id"]
);
collection!(
    /// Events, whose sort order has both directions.
    Event, collection = "events", key = ["tenant", "at", "id"], order = ["-at", "id"]
);
collection!(
    /// Tasks, whose sort order begins with a text.
    Task, collection = "tasks", key = ["tenant", "kind", "at", "id"], order = ["kind", "at", "id"]
);

/// Creates the three collections and stores their rows.
pub(crate) async fn store(recto: &Recto) {
    let collections = [Reading::collection(), Event::collection(), Task::collection()];
    recto.apply(&recto::schema_of(collections)).await.unwrap();
    Reading::store(recto).await;
    Event::store(recto).await;
    Task::store(recto).await;
}
