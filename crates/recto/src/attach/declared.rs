//! Declaration of a table as a collection: columns become fields, and related tables become views.

use recto_cassandra::{ColumnThere, TableThere};
use recto_model::schema::{AttachedTable, BASE_SORT_ORDER, PRIMARY_VIEW, check_name};
use recto_model::table::ColumnKind;
use recto_model::{Direction, Type};

use super::LeftOut;
use crate::error::{Error, ErrorKind, Result};

/// Existing table that may become a view of the attached collection.
pub(super) struct Candidate {
    pub(super) table: TableThere,
    /// True if the table is a materialized view whose filter excludes records for other reasons than null key
    /// fields.
    pub(super) is_partial: bool,
    /// True if the request to attach names this table.
    pub(super) is_named: bool,
}

/// Declaration of a collection from an existing table, under construction.
pub(super) struct Declaring<'a> {
    name: &'a str,
    table: &'a AttachedTable,
    /// Columns that become fields, with the columns of the key first.
    fields: Vec<&'a ColumnThere>,
    /// Declarations of the collection's views, in the schema language.
    views: String,
    pub(super) left_out: Vec<LeftOut>,
}

impl<'a> Declaring<'a> {
    /// Declares the collection of a table, without views.
    ///
    /// # Errors
    /// The name is not a valid collection name, or the key has a column that a collection cannot have.
    pub(super) fn new(name: &'a str, table: &'a AttachedTable, there: &'a TableThere) -> Result<Self> {
        check_name(name).map_err(|error| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("{name:?} is not a valid name of a collection: {error}"),
            )
            .with_hint("use --name to give the collection another name than the table")
        })?;
        let mut declaring = Self {
            name,
            table,
            fields: Vec::new(),
            views: String::new(),
            left_out: Vec::new(),
        };
        for column in &there.columns {
            match (obstacle(column), is_key(column)) {
                (None, _) => declaring.fields.push(column),
                (Some(why), false) => {
                    let what = format!("column {}", column.name);
                    declaring.left_out.push(LeftOut::new(what, why));
                }
                (Some(why), true) => return Err(no_key(table, column, &why)),
            }
        }
        Ok(declaring)
    }

    /// Adds a table as a view, or records the reason why it cannot be a view.
    ///
    /// # Errors
    /// The request names the table, and the table cannot be a view.
    pub(super) fn view(&mut self, candidate: Candidate) -> Result<()> {
        let Candidate {
            table,
            is_partial,
            is_named,
        } = candidate;
        let Some(why) = self.obstacle_of_view(&table, is_partial) else {
            let declaration = self.declared_view(&table);
            self.views.push_str(&declaration);
            return Ok(());
        };
        let what = format!("view {}", table.name);
        if is_named {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("{what} of table {}: {why}", self.table),
            )
            .with_hint("do not name this view; nothing was changed"));
        }
        self.left_out.push(LeftOut::new(what, why));
        Ok(())
    }

    /// Returns the reason why the table `view` cannot be a view of the collection; `None` if it can.
    fn obstacle_of_view(&self, view: &TableThere, is_partial: bool) -> Option<String> {
        if let Err(error) = check_name(&view.name) {
            return Some(error.to_string());
        }
        if [PRIMARY_VIEW, BASE_SORT_ORDER].contains(&view.name.as_str()) {
            return Some(format!("{} is the name of the table's own sort order", view.name));
        }
        if is_partial {
            return Some(
                "its WHERE excludes rows for other reasons than null in a column of its key".to_owned(),
            );
        }
        let key = view.columns.iter().filter(|column| is_key(column));
        for column in key.clone() {
            if let Some(why) = obstacle(column) {
                return Some(format!("column {} of its key: {why}", column.name));
            }
            let field = self.fields.iter().find(|field| field.name == column.name);
            if field.is_none_or(|field| field.ty != column.ty) {
                return Some(format!(
                    "column {} {} of its key is not a column of the table",
                    column.name, column.type_text
                ));
            }
        }
        let key: Vec<&str> = key.map(|column| column.name.as_str()).collect();
        let mut own = self.fields.iter().filter(|field| is_key(field));
        let missing = own.find(|field| !key.contains(&field.name.as_str()))?;
        Some(format!("its key lacks column {} of the table's", missing.name))
    }

    fn declared_view(&self, view: &TableThere) -> String {
        let in_view = |field: &&&ColumnThere| {
            view.columns
                .iter()
                .any(|column| column.name == field.name && column.ty == field.ty)
        };
        let held: Vec<String> = self
            .fields
            .iter()
            .filter(in_view)
            .map(|field| quoted(&field.name))
            .collect();
        let mut text = format!(
            "\n[collection.{}.view.{}]\npartition = {}\norder = {}\nnulls = \"skip\"\n",
            self.name,
            view.name,
            partition_of(&view.columns),
            order_of(&view.columns)
        );
        if held.len() < self.fields.len() {
            text.push_str(&format!("fields = [{}]\n", held.join(", ")));
        }
        text
    }

    /// Returns the declaration of the collection in the schema language.
    pub(super) fn to_toml(&self) -> String {
        let fields = self.fields.iter().filter_map(|field| {
            let ty = field.ty.as_ref()?;
            Some(format!("{} = \"{ty}\"", field.name))
        });
        let fields: Vec<String> = fields.collect();
        let key = self.fields.iter().filter(|field| is_key(field));
        let key: Vec<String> = key.map(|field| quoted(&field.name)).collect();
        format!(
            "[collection.{}]\nfields = {{ {} }}\nkey = [{}]\npartition = {}\norder = {}\nattached = \"{}\"\n{}",
            self.name,
            fields.join(", "),
            key.join(", "),
            partition_of(self.fields.iter().copied()),
            order_of(self.fields.iter().copied()),
            self.table,
            self.views
        )
    }
}

fn is_key(column: &ColumnThere) -> bool {
    matches!(column.kind, ColumnKind::Partition | ColumnKind::Clustering(_))
}

/// Returns the reason why a column cannot be a field; `None` if it can.
fn obstacle(column: &ColumnThere) -> Option<String> {
    if let Err(error) = check_name(&column.name) {
        return Some(error.to_string());
    }
    let Some(ty) = &column.ty else {
        return Some(format!(
            "attached collections do not support its type {}",
            column.type_text
        ));
    };
    if is_key(column) && !ty.is_orderable() {
        return Some(format!("its type {} has no order in Recto", column.type_text));
    }
    (column.kind == ColumnKind::Partition && *ty == Type::Decimal).then(|| {
        "it is a decimal in a partition key, where 0.1 and 0.10 are two partitions in Cassandra, but one \
         value in Recto"
            .to_owned()
    })
}

#[cold]
fn no_key(table: &AttachedTable, column: &ColumnThere, why: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "table {table} cannot be attached: column {} of its key: {why}",
            column.name
        ),
    )
    .with_field(&column.name)
    .with_hint("attach a copy of the table with another key; nothing was changed")
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn list<'c>(
    columns: impl IntoIterator<Item = &'c ColumnThere>,
    text: impl Fn(&ColumnThere) -> Option<String>,
) -> String {
    let texts: Vec<String> = columns.into_iter().filter_map(text).collect();
    format!("[{}]", texts.join(", "))
}

fn partition_of<'c>(columns: impl IntoIterator<Item = &'c ColumnThere>) -> String {
    list(columns, |column| {
        (column.kind == ColumnKind::Partition).then(|| quoted(&column.name))
    })
}

fn order_of<'c>(columns: impl IntoIterator<Item = &'c ColumnThere>) -> String {
    list(columns, |column| match column.kind {
        ColumnKind::Clustering(Direction::Descending) => Some(quoted(&format!("-{}", column.name))),
        ColumnKind::Clustering(Direction::Ascending) => Some(quoted(&column.name)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use recto_model::schema::Schema;
    use recto_model::table::WriteKind;

    use super::*;

    fn column(name: &str, kind: ColumnKind, type_text: &str) -> ColumnThere {
        ColumnThere {
            name: name.to_owned(),
            kind,
            type_text: type_text.to_owned(),
            ty: recto_model::schema::parse_type(type_text, &[]).ok(),
        }
    }

    const PARTITION: ColumnKind = ColumnKind::Partition;
    const UP: ColumnKind = ColumnKind::Clustering(Direction::Ascending);
    const DOWN: ColumnKind = ColumnKind::Clustering(Direction::Descending);
    const STATIC: ColumnKind = ColumnKind::Static(WriteKind::Plain);
    const REGULAR: ColumnKind = ColumnKind::Regular(WriteKind::Plain);

    fn orders() -> TableThere {
        let columns = vec![
            column("customer", PARTITION, "uuid"),
            column("at", DOWN, "timestamp"),
            column("id", UP, "bigint"),
            column("level", STATIC, "text"),
            column("select", REGULAR, "text"),
            column("tags", REGULAR, "set<text>"),
            column("Total", REGULAR, "double"),
            column("place", REGULAR, "frozen<place>"),
        ];
        TableThere {
            name: "orders".to_owned(),
            columns,
            is_of_recto: false,
        }
    }

    fn view(name: &str, columns: Vec<ColumnThere>, is_named: bool) -> Candidate {
        Candidate {
            table: TableThere {
                name: name.to_owned(),
                columns,
                is_of_recto: false,
            },
            is_partial: false,
            is_named,
        }
    }

    fn by_level() -> Vec<ColumnThere> {
        vec![
            column("level", PARTITION, "text"),
            column("at", DOWN, "timestamp"),
            column("customer", UP, "uuid"),
            column("id", UP, "bigint"),
            column("tags", REGULAR, "set<text>"),
        ]
    }

    #[test]
    fn a_table_is_a_collection_and_what_it_cannot_have_is_named() {
        let (table, there) = ("shop.orders".parse().unwrap(), orders());
        let mut declaring = Declaring::new("all", &table, &there).unwrap();
        declaring.view(view("by_level", by_level(), false)).unwrap();
        let schema = Schema::parse(&declaring.to_toml()).unwrap_or_else(|errors| panic!("{errors}"));
        let all = schema.collection("all").unwrap();
        assert_eq!(all.base().to_string(), "(customer), -at, id");
        let fields: Vec<&str> = all.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(fields, ["customer", "at", "id", "level", "select", "tags"]);
        assert_eq!(
            all.arranged(&all.views[0]).to_string(),
            "(level), -at, customer, id"
        );
        let held = all.views[0].fields.as_ref().unwrap();
        assert_eq!(*held, ["customer", "at", "id", "level", "tags"]);
        let left_out: Vec<&str> = declaring.left_out.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(left_out, ["column Total", "column place"]);
    }

    #[test]
    fn a_key_that_no_collection_has_is_refused_by_its_column() {
        let table = "shop.orders".parse().unwrap();
        for (name, kind, ty, said) in [
            ("Id", UP, "bigint", "lower-case"),
            ("recto_id", UP, "bigint", "reserved for Recto"),
            ("amount", PARTITION, "decimal", "0.1 and 0.10"),
            ("parts", UP, "list<int>", "has no order"),
            (
                "place",
                UP,
                "frozen<place>",
                "attached collections do not support",
            ),
        ] {
            let mut there = orders();
            there.columns.push(column(name, kind, ty));
            let error = Declaring::new("orders", &table, &there).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(error.field(), Some(name));
            assert!(error.message().contains(said), "{error}");
        }
        let there = orders();
        let error = Declaring::new("Orders", &table, &there).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn skips_tables_that_are_no_views_or_rejects_named_ones() {
        let (table, there) = ("shop.orders".parse().unwrap(), orders());
        let without = |name: &str| {
            let mut columns = by_level();
            columns.retain(|column| column.name != name);
            columns
        };
        let with = |one: ColumnThere| {
            let mut columns = by_level();
            columns.push(one);
            columns
        };
        let cases = [
            ("no_id", without("id"), "lacks column id"),
            ("By_level", by_level(), "lower-case"),
            ("primary", by_level(), "own sort order"),
            ("other_type", with(column("tags", UP, "int")), "column tags int"),
            (
                "more",
                with(column("shard", PARTITION, "int")),
                "column shard int",
            ),
        ];
        for (name, columns, said) in cases {
            let mut declaring = Declaring::new("orders", &table, &there).unwrap();
            declaring.left_out.clear();
            declaring.view(view(name, columns.clone(), false)).unwrap();
            assert!(
                declaring.left_out[0].why.contains(said),
                "{:?}",
                declaring.left_out
            );
            let error = declaring.view(view(name, columns, true)).unwrap_err();
            assert!(error.message().contains(said), "{error}");
            assert!(declaring.views.is_empty());
        }
        let mut declaring = Declaring::new("orders", &table, &there).unwrap();
        let partial = Candidate {
            is_partial: true,
            ..view("some", by_level(), true)
        };
        assert!(
            declaring
                .view(partial)
                .unwrap_err()
                .message()
                .contains("excludes rows")
        );
    }
}
