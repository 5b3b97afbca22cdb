//! Translation of a vector (a CQL query of Cassandra's tests with its answer) to queries of Recto.
//! The result is one query, or several queries whose rows the test combines.

use std::fmt;

use recto::schema::Collection;
use recto::{Direction, Value};
use recto_testkit::oracle::{Comparison, Condition, Question, order};

use super::vector::{Relation, Test, Vector};

/// Maximum number of values in a list of a filter. It must equal the constant `MAX_VALUES` of the
/// filter language.
const MAX_VALUES: usize = 128;
/// Number of values of the list in each query, if a vector's list is too long for one filter. It is
/// smaller than `MAX_VALUES`, because other conditions also have values.
const VALUES_PER_QUERY: usize = 100;

/// Queries of Recto whose pages together contain the answer of a vector.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Query of Recto for the whole vector, without the parts of the vector that one query cannot
    /// express.
    pub(crate) question: Question,
    /// Number of rows of the result that belong to the vector's answer, from the first row. `None`:
    /// all rows.
    pub(crate) limit: Option<usize>,
    /// Features of CQL that the vector's query uses, sorted and without duplicates.
    pub(crate) kinds: Vec<Kind>,
    /// Part of the vector that one query cannot express. `None`: one query is enough.
    pub(crate) beyond: Option<Beyond>,
}

/// Reason why the pages of one query cannot answer a vector, and the several queries that answer
/// it. Their rows, sorted in the order of the vector's query, are the answer.
#[derive(Debug)]
pub(crate) struct Beyond {
    pub(crate) reason: Reason,
    pub(crate) parts: Vec<Question>,
    /// Number of rows of each query that belong to the answer, from the first row. `None`: all
    /// rows.
    pub(crate) limit_per_part: Option<usize>,
}

/// Feature of CQL that one query of Recto cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// `PER PARTITION LIMIT` of a query on several partitions.
    PerPartitionLimit,
    /// List of tuples that is not a product of lists of single columns, for example `(b, c) IN ((0,
    /// 0), (1, 1))`.
    TupleList,
    /// List of more values than a filter of Recto may have.
    TooManyValues,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerPartitionLimit => {
                "PER PARTITION LIMIT over several partitions: a page's size is of the whole page. One page per partition."
            }
            Self::TupleList => {
                "IN of tuples that are no product of lists: OR is of one field's values. One query per tuple."
            }
            Self::TooManyValues => "more than 128 values: a filter's limit. One query per 100 values.",
        })
    }
}

/// Feature of CQL that a vector's query uses. Most vectors use several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    PartitionEqual,
    PartitionList,
    OrderEqual,
    OrderList,
    OrderRange,
    TupleEqual,
    TupleList,
    TupleRange,
    EmptyList,
    OwnOrder,
    SortWith,
    SortAgainst,
    SortOfPinned,
    PartitionsOneAfterTheOther,
    PartitionsMerged,
    Limit,
    LimitOfThePartition,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PartitionEqual => "partition pinned",
            Self::PartitionList => "partition listed",
            Self::OrderEqual => "order column pinned",
            Self::OrderList => "order column listed",
            Self::OrderRange => "range",
            Self::TupleEqual => "tuple equality",
            Self::TupleList => "tuples listed",
            Self::TupleRange => "tuple range",
            Self::EmptyList => "empty list",
            Self::OwnOrder => "own order",
            Self::SortWith => "sorted as arranged",
            Self::SortAgainst => "sorted in reverse",
            Self::SortOfPinned => "sorted by pinned columns, the rest named too",
            Self::PartitionsOneAfterTheOther => "partitions one after the other",
            Self::PartitionsMerged => "partitions merged",
            Self::Limit => "limit as page size",
            Self::LimitOfThePartition => "limit of the one partition as page size",
        })
    }
}

/// Returns the queries of Recto whose pages answer a vector. `collection` has the rows that the
/// vector queries.
pub(crate) fn answer(vector: &Vector, collection: &Collection) -> Answer {
    let mut drawn = Drawn {
        vector,
        collection,
        kinds: Vec::new(),
        conditions: Vec::new(),
        reason: None,
    };
    let mut lists = Vec::new();
    for relation in &vector.relations {
        lists.extend(drawn.relation(relation));
    }
    let sort = drawn.sort();
    let mut limit = vector.limit;
    if limit.is_some() {
        drawn.kinds.push(Kind::Limit);
    }
    if let Some(per_partition) = vector.per_partition_limit {
        if drawn.partitions().len() > 1 {
            drawn.reason = Some(Reason::PerPartitionLimit);
            lists = drawn.partitions();
        } else {
            drawn.kinds.push(Kind::LimitOfThePartition);
            limit = Some(limit.map_or(per_partition, |limit| limit.min(per_partition)));
        }
    }
    let question = |conditions: Vec<Condition>| Question {
        conditions,
        sort: sort.clone(),
        allow_filter_scan: false,
    };
    let parts = lists.into_iter().map(|more| {
        let mut conditions = drawn.conditions.clone();
        conditions.extend(more);
        question(conditions)
    });
    let beyond = drawn.reason.map(|reason| Beyond {
        reason,
        parts: parts.collect(),
        limit_per_part: vector.per_partition_limit,
    });
    drawn.kinds.sort_unstable();
    drawn.kinds.dedup();
    Answer {
        question: question(drawn.conditions),
        limit,
        kinds: drawn.kinds,
        beyond,
    }
}

/// State of the translation of one vector to queries of Recto.
struct Drawn<'a> {
    vector: &'a Vector,
    collection: &'a Collection,
    kinds: Vec<Kind>,
    conditions: Vec<Condition>,
    reason: Option<Reason>,
}

impl Drawn<'_> {
    fn is_partition(&self, column: usize) -> bool {
        self.collection
            .base()
            .partition
            .contains(&self.collection.fields[column].name)
    }

    /// Adds a relation of the vector's WHERE clause as a condition of the query. If a filter cannot
    /// express the relation, returns alternatives. Each alternative is a list of conditions for a
    /// separate query.
    fn relation(&mut self, relation: &Relation) -> Vec<Vec<Condition>> {
        let columns = &relation.columns;
        let is_partition = self.is_partition(columns[0]);
        match &relation.test {
            Test::Compare(comparison, values) => {
                let is_equal = *comparison == Comparison::Equal;
                self.kinds
                    .push(match (relation.is_tuple, is_equal, is_partition) {
                        (true, true, _) => Kind::TupleEqual,
                        (true, false, _) => Kind::TupleRange,
                        (false, true, true) => Kind::PartitionEqual,
                        (false, true, false) => Kind::OrderEqual,
                        (false, false, _) => Kind::OrderRange,
                    });
                self.conditions.push(if relation.is_tuple {
                    Condition::Tuple {
                        fields: columns.clone(),
                        comparison: *comparison,
                        values: values.clone(),
                    }
                } else {
                    Condition::Compare {
                        field: columns[0],
                        comparison: *comparison,
                        value: values[0].clone(),
                    }
                });
                Vec::new()
            }
            Test::In(tuples) => {
                self.kinds.push(match (columns.len(), is_partition) {
                    (1, true) => Kind::PartitionList,
                    (1, false) => Kind::OrderList,
                    _ => Kind::TupleList,
                });
                self.list(columns, tuples)
            }
        }
    }

    fn list(&mut self, columns: &[usize], tuples: &[Vec<Value>]) -> Vec<Vec<Condition>> {
        if tuples.is_empty() {
            self.kinds.push(Kind::EmptyList);
        }
        let lists: Vec<Vec<Value>> = (0..columns.len())
            .map(|at| distinct(tuples.iter().map(|tuple| tuple[at].clone())))
            .collect();
        let product: usize = lists.iter().map(Vec::len).product();
        if columns.len() == 1 && tuples.len() > MAX_VALUES {
            self.reason = Some(Reason::TooManyValues);
            let chunks = lists[0].chunks(VALUES_PER_QUERY);
            return chunks.map(|values| vec![any_of(columns[0], values)]).collect();
        }
        let mut different: Vec<&Vec<Value>> = Vec::new();
        for tuple in tuples {
            if !different.contains(&tuple) {
                different.push(tuple);
            }
        }
        if product == different.len() {
            let listed = columns.iter().zip(&lists);
            self.conditions
                .extend(listed.map(|(column, values)| any_of(*column, values)));
            return Vec::new();
        }
        self.reason = Some(Reason::TupleList);
        let alternative = |tuple: &Vec<Value>| {
            let equal = columns.iter().zip(tuple);
            equal
                .map(|(column, value)| any_of(*column, std::slice::from_ref(value)))
                .collect()
        };
        different.into_iter().map(alternative).collect()
    }

    /// Returns one list of conditions for each partition that the vector's query lists. The
    /// conditions of a list select one partition.
    fn partitions(&self) -> Vec<Vec<Condition>> {
        let mut partitions: Vec<Vec<Condition>> = vec![Vec::new()];
        for relation in &self.vector.relations {
            let column = relation.columns[0];
            if let (true, Test::In(values)) = (self.is_partition(column), &relation.test) {
                let values = distinct(values.iter().map(|value| value[0].clone()));
                let with = |earlier: &Vec<Condition>| {
                    values
                        .iter()
                        .map(|value| {
                            let mut with = earlier.clone();
                            with.push(any_of(column, std::slice::from_ref(value)));
                            with
                        })
                        .collect::<Vec<_>>()
                };
                partitions = partitions.iter().flat_map(with).collect();
            }
        }
        partitions
    }

    /// Returns the sort order of the vector's answer, as column indexes with directions.
    ///
    /// Without ORDER BY, Cassandra returns partitions in the order of their values. With ORDER BY,
    /// it sorts the rows of all partitions by the columns of ORDER BY only. The sort is stable, so
    /// rows with equal columns keep the order of their partitions. ORDER BY also reverses the order
    /// within partitions, even if it names only columns that `=` fixes. Recto ignores such columns
    /// when it sorts, so this function adds the columns that follow.
    fn sort(&mut self) -> Vec<(usize, Direction)> {
        let index = |name: &String| self.collection.field(name).unwrap().0;
        let arranged: Vec<(usize, Direction)> = self
            .collection
            .base()
            .order
            .iter()
            .map(|column| (index(&column.field), column.direction))
            .collect();
        let mut sort = self.vector.order_by.clone();
        let is_reversed = sort
            .iter()
            .any(|(field, direction)| arranged.iter().any(|own| own.0 == *field && own.1 != *direction));
        self.kinds.push(match (sort.is_empty(), is_reversed) {
            (true, _) => Kind::OwnOrder,
            (false, false) => Kind::SortWith,
            (false, true) => Kind::SortAgainst,
        });
        let is_pinned_only = is_reversed && sort.iter().all(|(field, _)| self.is_pinned(*field));
        if self.kinds.contains(&Kind::PartitionList) {
            self.kinds.push(if sort.is_empty() {
                Kind::PartitionsOneAfterTheOther
            } else {
                Kind::PartitionsMerged
            });
            let partition = self.collection.base().partition.iter();
            sort.extend(partition.map(|name| (index(name), Direction::Ascending)));
        } else if is_pinned_only {
            self.kinds.push(Kind::SortOfPinned);
        } else {
            return sort;
        }
        for (field, direction) in arranged {
            if !sort.iter().any(|(earlier, _)| *earlier == field) {
                let direction = if is_reversed {
                    direction.reversed()
                } else {
                    direction
                };
                sort.push((field, direction));
            }
        }
        sort
    }

    /// Returns whether the relations of the vector fix the column with this index to one value.
    fn is_pinned(&self, column: usize) -> bool {
        self.vector.relations.iter().any(|relation| {
            relation.columns.contains(&column)
                && match &relation.test {
                    Test::Compare(comparison, _) => *comparison == Comparison::Equal,
                    Test::In(tuples) => tuples.len() == 1,
                }
        })
    }
}

fn any_of(field: usize, values: &[Value]) -> Condition {
    Condition::AnyOf {
        field,
        values: values.to_vec(),
    }
}

fn distinct(values: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut values: Vec<Value> = values.collect();
    values.sort_by(order::compare);
    values.dedup();
    values
}
