//! Test that the planned statement for a missing keyspace is the statement that creates it.

use recto_cassandra::{Replication, create_keyspace, drop_keyspace, plan_keyspace};
use recto_model::Environment;
use scylla::client::session_builder::SessionBuilder;

use crate::common;

#[tokio::test(flavor = "multi_thread")]
async fn creates_the_planned_keyspace() {
    let config = common::config(&common::new_keyspace());
    let plan = async |replication| {
        let planned = plan_keyspace(config.clone(), Environment::system(), replication, &[]).await;
        planned.map(|plan| plan.statement)
    };
    // A cluster with one node cannot have two copies.
    let asked = plan(Some(Replication::Everywhere(2))).await.unwrap_err();
    assert!(
        asked.to_string().contains("2 copies in data center datacenter1"),
        "{asked}"
    );
    let asked = plan(Some(Replication::Everywhere(1))).await.unwrap().unwrap();
    assert!(
        asked.contains("'NetworkTopologyStrategy', 'datacenter1': 1"),
        "{asked}"
    );
    let planned = plan(None).await.unwrap().unwrap();
    // The default number of copies is one, because the data center has one node.
    assert!(planned.contains("'datacenter1': 1"), "{planned}");

    let session = SessionBuilder::new()
        .known_nodes(&config.hosts)
        .build()
        .await
        .unwrap();
    let replication = async || {
        let text = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let rows = session.query_unpaged(text, (&config.keyspace,)).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        rows.maybe_first_row::<(std::collections::BTreeMap<String, String>,)>()
            .unwrap()
    };
    assert_eq!(replication().await, None, "planning makes nothing");
    session.query_unpaged(planned, ()).await.unwrap();
    let by_plan = replication().await;
    assert_eq!(plan(None).await.unwrap(), None);
    drop_keyspace(config.clone(), Environment::system())
        .await
        .unwrap();
    create_keyspace(config.clone(), Environment::system(), None)
        .await
        .unwrap();
    assert_eq!(replication().await, by_plan);
    assert!(by_plan.is_some());
    drop_keyspace(config, Environment::system()).await.unwrap();
}
