//! Tests of attached collections, whose tables belong to other programs: accepted declarations, and
//! possible changes.

use recto_model::schema::{Schema, WriteMode};

const ORDERS: &str = r#"
[collection.orders]
fields = { customer = "uuid", at = "timestamp", status = "text", total = "decimal" }
key = ["customer", "at"]
partition = ["customer"]
order = ["-at"]
attached = "shop.orders_by_customer"

[collection.orders.view.orders_by_status]
partition = ["status"]
order = ["-at", "customer"]
nulls = "skip"
fields = ["total"]
"#;

fn parse(text: &str) -> Schema {
    Schema::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn uses_tables_of_the_attached_keyspace_unchanged() {
    let schema = parse(ORDERS);
    let orders = &schema.collections[0];
    assert_eq!(orders.writes, WriteMode::Append);
    assert_eq!(orders.base_table().name(), "shop.orders_by_customer");
    let view = orders.arranged(&orders.views[0]);
    let (table, _) = view.table(&view.table_name(7)).unwrap();
    assert_eq!(table.name(), "shop.orders_by_status");
    let columns: Vec<&str> = table.columns().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(columns, ["status", "at", "customer", "total"]);
    assert_eq!(parse(&schema.to_toml()), schema);
}

#[test]
fn rejects_options_that_do_not_fit_attached_tables() {
    let refused = |from: &str, to: &str, said: &str| {
        assert!(ORDERS.contains(from), "{from}");
        let errors = Schema::parse(&ORDERS.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(errors.contains(said), "{said}: {errors}");
    };
    let attached = "attached = \"shop.orders_by_customer\"";
    let beside = |line: &str| format!("{attached}\n{line}");
    refused(
        attached,
        &beside("writes = \"append\""),
        "`writes` sets how records are written",
    );
    refused(
        attached,
        &beside("bucket = { rows = 5 }"),
        "`bucket` sets how a table is created",
    );
    refused(
        attached,
        &beside("unique = [\"status\"]"),
        "`unique` needs conditional writes",
    );
    refused(
        "shop.orders_by_customer",
        "orders",
        "`attached` must be a table with its keyspace",
    );
    refused("shop.orders_by_customer", "shop.Orders", "`attached` must be");
    refused(
        "nulls = \"skip\"",
        "nulls = \"last\"",
        "key columns are never null",
    );
    refused(
        "partition = [\"status\"]",
        "partition = [\"total\"]",
        "0.1 and 0.10 are two partitions",
    );
    refused(
        "customer = \"uuid\"",
        "customer = \"decimal\"",
        "0.1 and 0.10 are two partitions",
    );
}

#[test]
fn it_is_whatever_its_table_is() {
    let before = parse(ORDERS);
    let without = ORDERS.replacen(", status = \"text\", total = \"decimal\"", "", 1);
    let without = &without[..without.find("[collection.orders.view").unwrap()];
    let now = parse(&without.replace("-at", "at"));
    let changes = before.difference(&now.keeping(&before));
    assert!(
        changes.iter().all(|change| change.obstacle.is_none()),
        "{changes:?}"
    );
    assert_eq!(changes.len(), 4, "{changes:?}");
    assert_eq!(now.keeping(&before), now, "nothing is kept of what the table had");
    let own = parse(&without.replace("attached = \"shop.orders_by_customer\"", "writes = \"append\""));
    let changes = before.difference(&own);
    let text = changes
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        text.contains(
            "attached from shop.orders_by_customer to nothing (not possible: its records are in another place"
        ),
        "{text}"
    );
}
