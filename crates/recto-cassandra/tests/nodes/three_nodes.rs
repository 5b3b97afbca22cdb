//! Tests of a cluster with three copies of each row, of which one node is killed or frozen. The
//! test starts its own nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recto_cassandra::{CassandraConfig, CassandraStore};
use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Direction, Environment, Slice, Table};
use recto_store::{
    Cas, CasCondition, CasOutcome, ConsistencyLevel, Mutation, Operation, PartitionWrite, ReadOptions,
    RowAddress, RowsRead, Stamp, Store, StoreErrorKind, TableOutcome, TableState, WriteOptions, WriteOutcome,
};
use recto_testkit::rig::{Cluster, ClusterOptions, Node, Nodes};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::query_result::QueryResult;
use scylla::statement::unprepared::Statement;

use crate::common;

const KEYSPACE: &str = "three";
/// Number of partitions whose coordinators are compared. Each node is the first replica of at least
/// one of these partitions.
const PARTITIONS: i32 = 6;
/// Number of rows that each have a deletion below them. It is above the warning threshold of 1,000,
/// so Cassandra would warn if it counted these deletions.
const COVERED: i32 = 1_500;
/// Number of partitions that conditional writes create in the table `decided`.
const DECIDED: i32 = 50;
/// Maximum time for nodes to notice a killed node, and for the driver to find a restarted node.
const NOTICED: Duration = Duration::from_secs(300);
/// Maximum time for a resumed node to empty a table after a request that it received while frozen.
const LATE: Duration = Duration::from_secs(15);
const LATE_ATTEMPTS: u32 = 4;
/// Time after which a caller stops waiting for a frozen node.
const IMPATIENT: Duration = Duration::from_millis(500);
/// Maximum time until Cassandra has written the traces of all requests.
const TRACED: Duration = Duration::from_secs(20);

fn ints<const N: usize>(values: [i32; N]) -> Cells {
    let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_be_bytes()).collect();
    bytes.iter().map(|cell| Some(&cell[..])).collect()
}

/// Two stores on one cluster, as if in two processes, and their tables.
struct Bench {
    cluster: Cluster,
    stores: [CassandraStore; 2],
    session: Session,
    /// Table that is changed only by conditional writes, with columns p, c, v.
    decided: Arc<Table>,
    /// Table that is changed only by plain writes, with columns p, c, v.
    kept: Arc<Table>,
    /// Table that is changed only by plain writes, and of which Cassandra makes no snapshot when it
    /// is emptied.
    unkept: Arc<Table>,
}

impl Bench {
    async fn new(cluster: Cluster) -> Self {
        let mut config = CassandraConfig::new(cluster.addresses(), KEYSPACE);
        config.connect_timeout = Duration::from_secs(30);
        let (first, kept) = common::with_table(config.clone(), []).await;
        let second = CassandraStore::connect(config, Environment::system())
            .await
            .unwrap();
        let table = |name: &str, kind, automatic_snapshots| {
            let columns = vec![
                common::int_column("p", ColumnKind::Partition),
                common::int_column("c", ColumnKind::Clustering(Direction::Ascending)),
                common::int_column("v", ColumnKind::Regular(kind)),
            ];
            let options = TableOptions {
                automatic_snapshots,
                ..TableOptions::default()
            };
            Arc::new(Table::new(name, columns, options).unwrap())
        };
        let decided = table("decided", WriteKind::Cas, false);
        let unkept = table("unkept", WriteKind::Plain, false);
        for table in [&decided, &unkept] {
            let outcome = first.create_table(table).await.unwrap();
            assert!(matches!(outcome, TableOutcome::Done), "{outcome:?}");
        }
        let session = SessionBuilder::new().known_nodes(cluster.addresses());
        Self {
            session: session.build().await.unwrap(),
            cluster,
            stores: [first, second],
            decided,
            kept,
            unkept,
        }
    }

    /// Creates the row of `partition` with the value `new` by a conditional write that requires
    /// that the row does not exist.
    async fn decide(&self, store: &CassandraStore, partition: i32, new: i32) -> CasOutcome {
        let cas = Cas {
            table: Arc::clone(&self.decided),
            partition: ints([partition]),
            conditions: vec![CasCondition {
                row: RowAddress::Row(ints([0])),
                column: 0,
                expected: None,
            }],
            mutations: vec![Mutation {
                operation: Operation::Patch {
                    clustering: ints([0]),
                    columns: vec![0],
                    cells: ints([new]),
                },
                stamp: None,
                ttl_seconds: None,
            }],
        };
        store.cas(cas, WriteOptions::default()).await.unwrap()
    }

    /// Returns definitions of tables that must be created only once in the cluster.
    fn made_once(names: [&str; 2]) -> [Table; 2] {
        names.map(|name| {
            let columns = vec![
                common::int_column("p", ColumnKind::Partition),
                common::int_column("v", ColumnKind::Regular(WriteKind::Cas)),
            ];
            Table::new(name, columns, TableOptions::default()).unwrap()
        })
    }

    /// Checks that two stores, as in two processes, that create the same tables concurrently get
    /// the same tables.
    async fn tables_are_made_once(&self, tables: &[Table]) {
        let begun = Instant::now();
        loop {
            let [first, second] = &self.stores;
            let made = tokio::join!(
                first.create_tables_once(tables),
                second.create_tables_once(tables)
            );
            match made {
                (Ok(TableOutcome::Done), Ok(TableOutcome::Done)) => break,
                // Try again, because the driver may not have noticed yet that all nodes are up.
                other => assert!(begun.elapsed() < NOTICED, "{other:?}"),
            }
            tokio::time::sleep(IMPATIENT).await;
        }
        self.ids(tables).await;
    }

    /// Returns the ids of the tables in Cassandra, after checking that all nodes report the same
    /// ids.
    async fn ids(&self, tables: &[Table]) -> Vec<String> {
        let mut ids = Vec::new();
        for number in [1, 2, 3] {
            let text = format!(
                "SELECT table_name, CAST(id AS text) FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'"
            );
            let told = self
                .sent_to(self.cluster.node(number), text, NOTICED)
                .await
                .unwrap();
            let rows = told.into_rows_result().unwrap();
            let rows: BTreeMap<String, String> = rows
                .rows::<(String, String)>()
                .unwrap()
                .map(Result::unwrap)
                .collect();
            ids.push(
                tables
                    .iter()
                    .map(|table| rows[table.name()].clone())
                    .collect::<Vec<_>>(),
            );
        }
        assert!(ids.iter().all(|of_node| *of_node == ids[0]), "{ids:?}");
        ids.swap_remove(0)
    }

    /// Checks that the store does not create tables while a node is unreachable, but accepts
    /// existing ones. The unreachable node would not learn of a new table, and would create a
    /// different table for a later request.
    async fn no_table_is_made_once_while_a_node_is_away(&self, there: &[Table]) {
        let new = Self::made_once(["new", "newest"]);
        let refused = self.stores[0].create_tables_once(&new).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{refused}");
        assert!(refused.hint().unwrap().contains("all nodes"));
        let states = self.stores[0].compare_tables(&new).await.unwrap();
        assert!(states.iter().all(|state| *state == TableState::Missing));
        let outcome = self.stores[0].create_tables_once(there).await.unwrap();
        assert!(matches!(outcome, TableOutcome::Done), "{outcome:?}");
    }

    /// Checks that a late `CREATE` does no harm. A frozen node has received the statement, and
    /// executes it when it resumes, while processes create the same tables. All nodes and processes
    /// get the same tables, which remain.
    async fn tables_are_made_once_beside_a_late_one(&self, tables: &[Table]) {
        let node = self.cluster.node(3);
        let name = tables[0].name();
        let late = format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.{name} (p int PRIMARY KEY, v int)");
        node.pause().unwrap();
        self.sent_to(node, late, IMPATIENT).await.unwrap_err();
        let given_up = tokio::time::timeout(IMPATIENT, self.stores[0].create_tables_once(tables)).await;
        assert!(!matches!(given_up, Ok(Ok(_))), "a node is frozen: {given_up:?}");
        node.resume().unwrap();
        self.tables_are_made_once(tables).await;
        let made = self.ids(tables).await;
        tokio::time::sleep(LATE).await;
        assert_eq!(self.ids(tables).await, made);
    }

    async fn put(&self, table: &Arc<Table>) {
        self.put_all(table, 1, [(1, ints([1]))]).await;
    }

    /// Puts rows into a partition; each row is given by its clustering value and its cells.
    async fn put_all(
        &self,
        table: &Arc<Table>,
        partition: i32,
        rows: impl IntoIterator<Item = (i32, Cells)>,
    ) {
        let put = |(clustering, cells)| Mutation {
            operation: Operation::Put {
                clustering: ints([clustering]),
                cells,
                replace: true,
            },
            stamp: Some(Stamp(1)),
            ttl_seconds: None,
        };
        let write = PartitionWrite {
            table: Arc::clone(table),
            partition: ints([partition]),
            mutations: rows.into_iter().map(put).collect(),
        };
        // Use a long timeout: if a node hangs, the driver needs seconds to close the connection to
        // it.
        let options = WriteOptions {
            timeout: NOTICED,
            ..WriteOptions::default()
        };
        let outcome = self.stores[0].write(write, options).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
    }

    async fn rows(
        &self,
        store: &CassandraStore,
        table: &Arc<Table>,
        partition: i32,
        consistency: ConsistencyLevel,
    ) -> usize {
        self.read(store, table, partition, consistency).await.rows.len()
    }

    async fn read(
        &self,
        store: &CassandraStore,
        table: &Arc<Table>,
        partition: i32,
        consistency: ConsistencyLevel,
    ) -> RowsRead {
        let slice = Slice {
            table: Arc::clone(table),
            partition: ints([partition]),
            from: Bound::start(),
            to: Bound::end(),
            direction: ReadDirection::Forward,
            limit: 2_000,
        };
        let options = ReadOptions {
            consistency: Some(consistency),
            ..ReadOptions::default()
        };
        let snapshot = store.snapshot().unwrap();
        snapshot.slice(&slice, &options).await.unwrap()
    }

    /// Returns the number of conditionally written rows that reads at consistency `ALL` find.
    async fn decided_rows(&self) -> usize {
        let mut rows = 0;
        for partition in 0..DECIDED {
            let all = ConsistencyLevel::All;
            rows += self.rows(&self.stores[0], &self.decided, partition, all).await;
        }
        rows
    }

    async fn empty(&self, table: &Table) -> Result<TableOutcome, recto_store::StoreError> {
        self.stores[0].empty_table(table).await
    }

    /// Returns the addresses of the replicas of a partition in ring order, as Cassandra reports
    /// them.
    fn replicas(&self, partition: i32) -> Vec<String> {
        let key = partition.to_string();
        let told = self
            .cluster
            .node(1)
            .nodetool(&["getendpoints", KEYSPACE, "decided", &key])
            .unwrap();
        let replicas: Vec<String> = told.stdout.split_whitespace().map(str::to_owned).collect();
        assert_eq!(replicas.len(), 3, "{replicas:?}");
        replicas
    }

    /// Returns the nodes to which a store sends the conditional writes and serial reads of a
    /// partition.
    async fn coordinators(&self, store: &CassandraStore, partition: i32) -> Vec<String> {
        let requests = || -> BTreeMap<String, u64> {
            let nodes = store.metrics().nodes.into_iter();
            nodes.map(|node| (ip(&node.address), node.requests)).collect()
        };
        let before = requests();
        for new in 0..3 {
            self.decide(store, partition, new).await;
            self.rows(store, &self.decided, partition, ConsistencyLevel::LocalSerial)
                .await;
        }
        let after = requests().into_iter();
        after
            .filter(|(node, count)| before.get(node).is_none_or(|before| count > before))
            .map(|(node, _)| node)
            .collect()
    }

    /// Waits until both stores send the conditional writes and serial reads of a partition only to
    /// `node`.
    async fn wait_for_coordinator(&self, partition: i32, node: &str) {
        for store in &self.stores {
            let start = Instant::now();
            loop {
                let coordinators = self.coordinators(store, partition).await;
                if coordinators == [node] {
                    break;
                }
                assert!(start.elapsed() < NOTICED, "{coordinators:?}, not {node}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Checks that two stores send the conditional writes and serial reads of a partition to the
    /// same node: its first replica. Cassandra's traces confirm this.
    async fn a_partition_has_one_coordinator(&self, replicas: &[Vec<String>]) {
        for (partition, replicas) in (0..).zip(replicas) {
            for store in &self.stores {
                let coordinators = self.coordinators(store, partition).await;
                assert_eq!(coordinators, replicas[..1], "partition {partition}");
            }
        }
        let mut nodes = self.cluster.nodes().iter();
        let first = nodes.find(|node| node.address().ip().to_string() == replicas[0][0]);
        let trace = |probability: &str| {
            first
                .unwrap()
                .nodetool(&["settraceprobability", probability])
                .unwrap()
        };
        trace("1");
        for store in &self.stores {
            self.coordinators(store, 0).await;
        }
        trace("0");
        // Each of the two stores sends three conditional writes and three serial reads. One node
        // coordinates all twelve.
        let start = Instant::now();
        while self.traced().await < 12 {
            assert!(
                start.elapsed() < TRACED,
                "{} of 12 are traced",
                self.traced().await
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the number of Paxos requests that a coordinator has traced.
    async fn traced(&self) -> usize {
        let text = "SELECT request, parameters FROM system_traces.sessions";
        let result = self.session.query_unpaged(text, ()).await.unwrap();
        let result = result.into_rows_result().unwrap();
        let rows = result
            .rows::<(Option<String>, Option<BTreeMap<String, String>>)>()
            .unwrap();
        rows.filter(|row| {
            let (request, parameters) = row.as_ref().unwrap();
            let is_batch = request.as_ref().is_some_and(|request| request.contains("batch"));
            let parameters = parameters.as_ref();
            let level = parameters.and_then(|parameters| parameters.get("consistency_level"));
            is_batch || level.is_some_and(|level| level == "LOCAL_SERIAL")
        })
        .count()
    }

    /// Checks that reads do not count the deletions below rows that were put with nulls, neither in
    /// sstables nor in memory.
    async fn deletions_under_live_rows_are_not_crossed(&self) {
        let null: Cells = [None].into_iter().collect();
        let rows = (0..COVERED).map(|c| (c, null.clone()));
        self.put_all(&self.kept, 2, rows).await;
        for node in self.cluster.nodes() {
            node.nodetool(&["flush", KEYSPACE]).unwrap();
        }
        let all = ConsistencyLevel::All;
        let read = self.read(&self.stores[0], &self.kept, 2, all).await;
        let rows = i32::try_from(read.rows.len()).unwrap();
        assert_eq!((rows, read.tombstones), (COVERED, 0));
    }

    /// Checks the result of emptying a table: the table is empty on all nodes, or the outcome is
    /// unknown, or nothing changed. The store sends the request only once.
    async fn emptying_needs_every_node(&self) {
        let requests = || -> u64 {
            let nodes = self.stores[0].metrics().nodes;
            nodes.iter().map(|node| node.requests).sum()
        };
        // The live nodes wait for the dead node until they notice its death, so the outcome is
        // unknown.
        let before = requests();
        let outcome = self.empty(&self.kept).await.unwrap();
        assert_eq!(requests(), before + 1);
        let TableOutcome::Unknown(error) = outcome else {
            panic!("a node is dead: {outcome:?}");
        };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        self.put(&self.kept).await;
        for number in [1, 2] {
            let node = self.cluster.node(number);
            node.wait_until_sees(self.cluster.node(3), false, NOTICED)
                .unwrap();
        }
        let error = self.empty(&self.kept).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert_eq!(error.table(), Some("t"));
        assert!(error.hint().unwrap().contains("every node"));
    }

    /// Checks that a frozen node empties a table when it resumes, if it received the request while
    /// frozen. Writes of the meantime are then lost. The test is repeated if the resumed node
    /// considers the other nodes dead and does nothing.
    async fn an_emptying_comes_late(&self) {
        for _ in 0..LATE_ATTEMPTS {
            if self.comes_late().await {
                return;
            }
        }
        panic!("what was written later is still there");
    }

    /// Sends a statement to `node` alone, and returns the response.
    async fn sent_to(
        &self,
        node: &Node,
        text: String,
        timeout: Duration,
    ) -> Result<QueryResult, ExecutionError> {
        let to_node = NodeIdentifier::NodeAddress(node.address());
        let mut statement = Statement::new(text);
        statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(to_node, None)));
        statement.set_request_timeout(Some(timeout));
        self.session.query_unpaged(statement, ()).await
    }

    async fn comes_late(&self) -> bool {
        let all = ConsistencyLevel::All;
        let node = self.cluster.node(1);
        node.pause().unwrap();
        self.sent_to(node, format!("TRUNCATE TABLE {KEYSPACE}.unkept"), IMPATIENT)
            .await
            .unwrap_err();
        self.put(&self.unkept).await;
        node.resume().unwrap();
        let start = Instant::now();
        while self.rows(&self.stores[0], &self.unkept, 1, all).await > 0 {
            if start.elapsed() > LATE {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        true
    }

    async fn snapshots_of_emptied_tables(&self) {
        let all = ConsistencyLevel::All;
        assert_eq!(
            self.rows(&self.stores[0], &self.kept, 1, all).await,
            1,
            "nothing was done, now or later"
        );
        self.put(&self.unkept).await;
        for table in [&self.kept, &self.unkept] {
            let outcome = self.empty(table).await.unwrap();
            assert!(matches!(outcome, TableOutcome::Done), "{outcome:?}");
            assert_eq!(self.rows(&self.stores[0], table, 1, all).await, 0);
        }
        let snapshots = self.cluster.node(1).nodetool(&["listsnapshots"]).unwrap().stdout;
        assert!(
            snapshots.contains("-t ") && !snapshots.contains("unkept"),
            "{snapshots}"
        );
    }
}

fn ip(address: &str) -> String {
    address.rsplit_once(':').unwrap().0.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: three nodes, of which one is killed, minutes in all"]
async fn one_of_three_nodes_is_killed_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let options = ClusterOptions::new(Nodes::Three)
        .setting("auto_snapshot", "true")
        .setting("truncate_request_timeout", "3s")
        .setting("batch_size_fail_threshold", "100KiB")
        .setting("max_mutation_size", "1MiB")
        .setting("hinted_handoff_enabled", "false");
    let bench = Bench::new(Cluster::start_with(&options, dir.path()).unwrap()).await;
    let limits = bench.stores[0].limits();
    assert_eq!((limits.mutation_bytes, limits.batch_bytes), (1 << 20, 100 << 10));

    let replicas: Vec<Vec<String>> = (0..PARTITIONS).map(|p| bench.replicas(p)).collect();
    bench.a_partition_has_one_coordinator(&replicas).await;
    bench.deletions_under_live_rows_are_not_crossed().await;
    bench.an_emptying_comes_late().await;

    let dies = bench.cluster.node(3).address().ip().to_string();
    let mut of_partitions = (0..).zip(&replicas);
    let (partition, replicas) = of_partitions.find(|(_, replicas)| replicas[0] == dies).unwrap();
    bench.put(&bench.kept).await;
    let registers = Bench::made_once(["register", "last"]);
    bench.tables_are_made_once(&registers).await;
    bench
        .tables_are_made_once_beside_a_late_one(&Bench::made_once(["late", "later"]))
        .await;
    bench.cluster.node(3).kill().unwrap();
    bench.wait_for_coordinator(partition, &replicas[1]).await;
    for partition in PARTITIONS..DECIDED {
        let outcome = bench.decide(&bench.stores[0], partition, 1).await;
        assert!(matches!(outcome, CasOutcome::Applied), "{outcome:?}");
    }
    bench.emptying_needs_every_node().await;
    bench.no_table_is_made_once_while_a_node_is_away(&registers).await;
    bench.cluster.node(3).start().unwrap();
    bench.cluster.wait_until_all_up().unwrap();
    bench.wait_for_coordinator(partition, &replicas[0]).await;
    bench
        .tables_are_made_once(&Bench::made_once(["new", "newest"]))
        .await;
    bench.snapshots_of_emptied_tables().await;

    // Emptying a table does not remove Paxos decisions, so a serial read restores their rows.
    let outcome = bench.empty(&bench.decided).await.unwrap();
    assert!(matches!(outcome, TableOutcome::Done), "{outcome:?}");
    assert_eq!(bench.decided_rows().await, 0);
    for partition in 0..DECIDED {
        let serial = ConsistencyLevel::LocalSerial;
        bench
            .rows(&bench.stores[0], &bench.decided, partition, serial)
            .await;
    }
    assert!(bench.decided_rows().await > 0, "Paxos outlives TRUNCATE");
}
