//! Parser of the file of vectors (CQL queries of Cassandra's tests with their answers). Also makes
//! collections for the rows that the vectors query.

use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use recto::schema::{Collection, Declaration, Field, WriteMode};
use recto::{Direction, Type, Value};
use recto_model::golden::bytes_of_hex;
use recto_testkit::oracle::{Comparison, Row};
use serde_json::Value as Json;

const VECTORS: &[u8] = include_bytes!("select.json.gz");

/// Table of Cassandra's tests, with the rows that one or several vectors query.
#[derive(Debug, PartialEq)]
pub(crate) struct Set {
    name: String,
    columns: Vec<(String, Type)>,
    partition: Vec<String>,
    clustering: Vec<(String, Direction)>,
    rows: Vec<Row>,
}

/// CQL query of Cassandra's tests, with Cassandra's answer. A vector refers to columns by their
/// indexes.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) id: String,
    pub(crate) cql: String,
    /// Index of the table that the vector queries, in the list of tables from [`read`].
    pub(crate) set: usize,
    pub(crate) relations: Vec<Relation>,
    pub(crate) order_by: Vec<(usize, Direction)>,
    pub(crate) limit: Option<usize>,
    pub(crate) per_partition_limit: Option<usize>,
    /// Indexes of the selected columns, in the order of the answer's values.
    pub(crate) select: Vec<usize>,
    pub(crate) expected: Vec<Row>,
}

/// Relation of a WHERE clause, for example `a = 1`. `columns` are indexes of columns.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(crate) columns: Vec<usize>,
    pub(crate) is_tuple: bool,
    pub(crate) test: Test,
}

/// Comparison or list of values in a relation of a WHERE clause.
#[derive(Debug)]
pub(crate) enum Test {
    Compare(Comparison, Vec<Value>),
    In(Vec<Vec<Value>>),
}

impl Set {
    /// Returns a collection with the columns and the sort order of this table.
    pub(crate) fn collection(&self) -> Arc<Collection> {
        let names = self.clustering.iter().map(|(name, _)| name);
        let declaration = Declaration {
            name: self.name.clone(),
            fields: self
                .columns
                .iter()
                .map(|(name, ty)| Field {
                    name: name.clone(),
                    ty: ty.clone(),
                })
                .collect(),
            key: self.partition.iter().chain(names).cloned().collect(),
            partition: Some(self.partition.clone()),
            order: self
                .clustering
                .iter()
                .map(|(name, direction)| match direction {
                    Direction::Ascending => name.clone(),
                    Direction::Descending => format!("-{name}"),
                })
                .collect(),
            writes: WriteMode::Overwrite,
        };
        Arc::new(Collection::new(declaration).unwrap())
    }

    /// Returns the rows of the table in the order of their insertion, as several lists. No list
    /// contains two rows with the same key: a row whose key already occurs begins a new list.
    pub(crate) fn insertions(&self) -> Vec<Vec<Row>> {
        let mut lists: Vec<Vec<Row>> = vec![Vec::new()];
        for row in &self.rows {
            if lists
                .last()
                .unwrap()
                .iter()
                .any(|earlier| self.same_key(earlier, row))
            {
                lists.push(Vec::new());
            }
            lists.last_mut().unwrap().push(row.clone());
        }
        lists
    }

    fn same_key(&self, left: &Row, right: &Row) -> bool {
        let is_key = |name: &String| {
            self.partition.contains(name) || self.clustering.iter().any(|(own, _)| own == name)
        };
        let keys = self
            .columns
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| is_key(name));
        keys.map(|(index, _)| index)
            .all(|index| left[index] == right[index])
    }

    fn column(&self, name: &Json) -> usize {
        let name = name.as_str().unwrap();
        self.columns.iter().position(|(own, _)| own == name).unwrap()
    }

    fn values(&self, columns: &[usize], values: &Json) -> Vec<Value> {
        let values = columns.iter().zip(list(values));
        values
            .map(|(column, value)| value_of(&self.columns[*column].1, value))
            .collect()
    }

    fn row(&self, columns: &[usize], values: &Json) -> Row {
        self.values(columns, values).into_iter().map(Some).collect()
    }
}

/// Returns all tables and all vectors from the file in the repository.
pub(crate) fn read() -> (Vec<Set>, Vec<Vector>) {
    let mut text = String::new();
    GzDecoder::new(VECTORS).read_to_string(&mut text).unwrap();
    let all: Json = serde_json::from_str(&text).unwrap();
    let mut sets: Vec<Set> = Vec::new();
    let mut vectors = Vec::new();
    for json in list(&all) {
        let mut set = set_of(json);
        let known = sets.iter().position(|known| {
            set.name.clone_from(&known.name);
            set == *known
        });
        let index = known.unwrap_or_else(|| {
            set.name = format!("set_{}", sets.len());
            sets.push(set);
            sets.len() - 1
        });
        vectors.push(vector_of(json, index, &sets[index]));
    }
    (sets, vectors)
}

fn set_of(json: &Json) -> Set {
    let table = &json["table"];
    let columns = list(&table["columns"]).iter();
    let clustering = list(&table["clustering"]).iter();
    let mut set = Set {
        name: String::new(),
        columns: columns
            .map(|column| (text(&column["name"]), type_of(&column["type"])))
            .collect(),
        partition: list(&table["partition"]).iter().map(text).collect(),
        clustering: clustering
            .map(|column| (text(&column["name"]), direction(&column["order"])))
            .collect(),
        rows: Vec::new(),
    };
    let all: Vec<usize> = (0..set.columns.len()).collect();
    set.rows = list(&json["rows"]).iter().map(|row| set.row(&all, row)).collect();
    set
}

fn vector_of(json: &Json, set_index: usize, set: &Set) -> Vector {
    let select: Vec<usize> = list(&json["select"])
        .iter()
        .map(|name| set.column(name))
        .collect();
    let limit = |name: &str| json[name].as_u64().map(|limit| limit as usize);
    let order_by = json["order_by"].as_array().into_iter().flatten();
    Vector {
        id: text(&json["id"]),
        cql: text(&json["cql"]),
        set: set_index,
        relations: list(&json["where"])
            .iter()
            .map(|relation| relation_of(relation, set))
            .collect(),
        order_by: order_by
            .map(|term| (set.column(&term["name"]), direction(&term["dir"])))
            .collect(),
        limit: limit("limit"),
        per_partition_limit: limit("per_partition_limit"),
        expected: list(&json["expected"])
            .iter()
            .map(|row| set.row(&select, row))
            .collect(),
        select,
    }
}

fn relation_of(json: &Json, set: &Set) -> Relation {
    let columns: Vec<usize> = list(&json["columns"])
        .iter()
        .map(|name| set.column(name))
        .collect();
    let test = if json["kind"] == "in" {
        Test::In(
            list(&json["values"])
                .iter()
                .map(|values| set.values(&columns, values))
                .collect(),
        )
    } else {
        Test::Compare(comparison(&json["op"]), set.values(&columns, &json["value"]))
    };
    Relation {
        columns,
        is_tuple: json["tuple"].as_bool().unwrap(),
        test,
    }
}

fn list(json: &Json) -> &[Json] {
    json.as_array().unwrap()
}

fn text(json: &Json) -> String {
    json.as_str().unwrap().to_owned()
}

fn direction(json: &Json) -> Direction {
    match json.as_str().unwrap() {
        "ASC" => Direction::Ascending,
        "DESC" => Direction::Descending,
        other => panic!("{other} is no direction"),
    }
}

fn comparison(json: &Json) -> Comparison {
    match json.as_str().unwrap() {
        "=" => Comparison::Equal,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        other => panic!("{other} is no comparison"),
    }
}

fn type_of(json: &Json) -> Type {
    match json.as_str().unwrap() {
        "int" => Type::Int,
        "text" | "varchar" => Type::Text,
        "blob" => Type::Blob,
        other => panic!("no vector had a column of type {other} before"),
    }
}

fn value_of(ty: &Type, json: &Json) -> Value {
    match ty {
        Type::Int => Value::Int(json.as_i64().unwrap().try_into().unwrap()),
        Type::Text => Value::Text(text(json)),
        _ => {
            let digits = json.as_str().unwrap().strip_prefix("0x").unwrap();
            Value::Blob(bytes_of_hex(digits))
        }
    }
}
