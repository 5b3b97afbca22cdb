//! Report on a keyspace for its operator: whether the number of copies fits the nodes, and how long
//! Cassandra keeps deletions.

use std::collections::BTreeMap;

use recto_model::Table;
use recto_store::StoreError;

use crate::client::Client;
use crate::connect::datacenters;
use crate::cql::table_name;
use crate::ddl::ALLOW_AUTO_SNAPSHOT;
use crate::schema::typed_rows;
use crate::store::CassandraStore;

/// Findings about a keyspace, one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceReport {
    /// Findings because of which requests fail, or may fail later, such as more copies than nodes.
    pub problems: Vec<String>,
    /// Findings that an operator should know, but because of which no request fails while all nodes
    /// are up.
    pub notes: Vec<String>,
}

impl CassandraStore {
    /// Compares the replication of the keyspace with the cluster's nodes, and reports how long
    /// Cassandra keeps the deletions of `tables`. The check does not compare the columns of the
    /// tables; [`compare_tables`](recto_store::Store::compare_tables) does. It reads no rows.
    ///
    /// # Errors
    /// Cassandra's system tables cannot be read.
    pub async fn check_keyspace(&self, tables: &[Table]) -> Result<KeyspaceReport, StoreError> {
        let client = self.client();
        let replication = replication(client).await?;
        let nodes = datacenters(&client.session);
        let local = client.config.local_datacenter.as_deref();
        let mut report = KeyspaceReport::default();
        compare_copies(&mut report, &replication, &nodes, local);
        let deadline = client.schema_deadline();
        let has_option = client.capabilities().dialect().has_snapshots_by_table;
        for found in client.find_tables(&[], &deadline).await? {
            let Some(table) = tables.iter().find(|table| table.name() == found.name) else {
                continue;
            };
            let (name, seconds) = (&found.name, found.gc_grace_seconds);
            if seconds < table.options().gc_grace_seconds {
                report.notes.push(format!(
                    "gc_grace_seconds of table {name} is {seconds}: run a repair at least that often, or a \
                     deletion that a node missed is undone"
                ));
            }
            if has_option && found.automatic_snapshots && !table.options().automatic_snapshots {
                let table = table_name(&client.config.keyspace, name);
                report.notes.push(format!(
                    "{ALLOW_AUTO_SNAPSHOT} of table {name} is true: whenever Recto empties the table, \
                     Cassandra keeps a snapshot that uses disk space until you run `nodetool clearsnapshot`; \
                     run ALTER TABLE {table} WITH {ALLOW_AUTO_SNAPSHOT} = false"
                ));
            }
        }
        Ok(report)
    }
}

/// Returns the replication of the keyspace, as Cassandra stores it.
async fn replication(client: &Client) -> Result<BTreeMap<String, String>, StoreError> {
    let deadline = client.schema_deadline();
    let text = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let result = client
        .ask(text, (client.config.keyspace.as_str(),), &deadline)
        .await?;
    let rows: Vec<(BTreeMap<String, String>,)> = typed_rows(result)?;
    Ok(rows
        .into_iter()
        .next()
        .map(|(replication,)| replication)
        .unwrap_or_default())
}

fn compare_copies(
    report: &mut KeyspaceReport,
    replication: &BTreeMap<String, String>,
    nodes: &BTreeMap<String, usize>,
    local: Option<&str>,
) {
    // Read only the number before a slash. The number after it counts transient replicas.
    let copies = |text: &String| text.split('/').next().and_then(|text| text.parse::<usize>().ok());
    if let Some(copies) = replication.get("replication_factor").and_then(copies) {
        if nodes.len() > 1 {
            report.problems.push(
                "the keyspace uses SimpleStrategy, which ignores data centers, and the cluster has several: \
                 alter the keyspace to NetworkTopologyStrategy"
                    .to_owned(),
            );
        }
        compare_in(report, "the cluster", copies, nodes.values().sum());
        return;
    }
    for (name, text) in replication.iter().filter(|(name, _)| *name != "class") {
        let there = nodes.get(name).copied().unwrap_or(0);
        compare_in(
            report,
            &format!("data center {name}"),
            copies(text).unwrap_or(0),
            there,
        );
    }
    for name in nodes.keys().filter(|name| !replication.contains_key(*name)) {
        let line = format!("data center {name} has no copies");
        if local.is_none_or(|local| local == name) {
            report.problems.push(format!(
                "{line}, and Recto sends its requests there: alter the replication of the keyspace"
            ));
        } else {
            report.notes.push(line);
        }
    }
}

fn compare_in(report: &mut KeyspaceReport, place: &str, copies: usize, nodes: usize) {
    if copies > nodes {
        report.problems.push(format!(
            "the keyspace requires {copies} copies in {place}, which has {nodes} nodes: alter its \
             replication, or add nodes"
        ));
    } else if copies < 3 && nodes > copies {
        report.notes.push(format!(
            "the keyspace has {copies} copies in {place}, which has {nodes} nodes: with fewer than 3 copies, \
             rows cannot be read or written while a node is down"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_beside_nodes() {
        let check = |replication: &[(&str, &str)], nodes: &[(&str, usize)], local: Option<&str>| {
            let replication = replication
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            let nodes = nodes.iter().map(|(name, nodes)| ((*name).to_owned(), *nodes));
            let mut report = KeyspaceReport::default();
            compare_copies(&mut report, &replication.collect(), &nodes.collect(), local);
            (report.problems, report.notes)
        };
        let (simple, topology) = (("class", "SimpleStrategy"), ("class", "NetworkTopologyStrategy"));
        let fine = (Vec::new(), Vec::new());
        assert_eq!(check(&[topology, ("dc1", "3")], &[("dc1", 3)], None), fine);
        assert_eq!(check(&[topology, ("dc1", "1")], &[("dc1", 1)], None), fine);
        assert_eq!(
            check(&[simple, ("replication_factor", "1")], &[("dc1", 1)], None),
            fine
        );
        let (problems, notes) = check(
            &[simple, ("replication_factor", "3")],
            &[("dc1", 1), ("dc2", 1)],
            None,
        );
        assert!(
            problems[0].contains("SimpleStrategy") && problems[1].contains("3 copies"),
            "{problems:?}"
        );
        assert_eq!(notes, [""; 0]);
        let two = [("dc1", 3), ("dc2", 3)];
        let (problems, notes) = check(&[topology, ("dc1", "2")], &two, Some("dc1"));
        assert_eq!(problems, [""; 0]);
        assert!(
            notes[0].contains("2 copies") && notes[1].contains("dc2 has no copies"),
            "{notes:?}"
        );
        let (problems, _) = check(&[topology, ("dc1", "3")], &two, Some("dc2"));
        assert!(
            problems[0].contains("Recto sends its requests there"),
            "{problems:?}"
        );
        let (problems, _) = check(&[topology, ("dc3", "3")], &[("dc1", 3)], None);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }
}
