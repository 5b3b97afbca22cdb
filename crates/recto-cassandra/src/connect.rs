//! Opens connections to a cluster, and creates, plans or drops a keyspace.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join};
use recto_model::Environment;
use recto_store::{ConsistencyLevel, StoreError, StoreErrorKind};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::NewSessionError;
use scylla::policies::load_balancing::{DefaultPolicy, LoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;

use crate::capabilities::Need;
use crate::client::{Client, Deadline, TimeLimit, consistency_of, serial_of};
use crate::config::{CassandraConfig, DEFAULT_PORT, Replication};
use crate::coordinator::OneCoordinator;
use crate::cql::{quoted, string_literal};
use crate::ddl::Dialect;
use crate::handshake;
use crate::schema::typed_rows;
use crate::settings::limits;
use crate::silence::Listener;

/// Default number of copies that a new keyspace keeps in each data center. A data center with fewer
/// nodes gets one copy per node.
const DEFAULT_COPIES: u8 = 3;
/// Divisor of the time to connect: one attempt at one node may take a fourth of this time. A node
/// that never answers can cost two attempts: one to read the cluster, one for requests. Time must
/// remain for the other nodes.
const ATTEMPTS_AT_CONNECTING: u32 = 4;
/// Interval of keepalive requests on each connection. A hanging node (a frozen process or machine,
/// a cut network) leaves its connections open. Without keepalive, requests to it would wait until
/// their deadline.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(1_500);
/// Maximum time of a keepalive response. Interval and timeout together are shorter than the time
/// limit of a read. If a node hangs, another node can therefore still serve the read. The timeout
/// is longer than garbage collection pauses of a healthy node.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Interval of the checks whether the nodes agree on the schema.
const SCHEMA_AGREEMENT_INTERVAL: Duration = Duration::from_millis(50);

/// Connects to the cluster of `config`, and checks that its local data center exists. Does not
/// check the keyspace.
pub(crate) async fn connect(config: CassandraConfig, environment: Environment) -> Result<Client, StoreError> {
    config.check()?;
    let deadline = Deadline::after(&environment, config.connect_timeout, TimeLimit::Connect);
    let building = async {
        let (builder, listener) = builder(&config).await?;
        Ok::<_, StoreError>((builder.build().await, listener))
    };
    let (built, listener) = deadline
        .limit(building)
        .await
        .map_err(|_| silent(&config, config.connect_timeout))??;
    let session = match built {
        Ok(session) => session,
        Err(error) => return Err(why(error, listener.as_deref(), &config, &deadline).await),
    };
    read_nodes(&session, &deadline).await?;
    check_datacenter(&session, &config)?;
    let coordinator = Arc::new(OneCoordinator {
        local_datacenter: config.local_datacenter.clone(),
        others: balancing(&config),
        token: None,
    });
    let mut client = Client::new(session, config, environment, coordinator);
    let (sizes, _) = try_join(
        client.read_sizes(&deadline),
        client.refresh_capabilities(&deadline),
    )
    .await?;
    client.limits = limits(&client.config, sizes);
    Ok(client)
}

/// Returns an error unless the cluster's nodes are known. If the driver cannot read the nodes, it
/// silently continues with the given hosts and no data center.
async fn read_nodes(session: &Session, deadline: &Deadline) -> Result<(), StoreError> {
    let is_known = |session: &Session| {
        let state = session.get_cluster_state();
        let mut nodes = state.get_nodes_info().iter();
        nodes.any(|node| node.datacenter.is_some())
    };
    if is_known(session) {
        return Ok(());
    }
    let unreadable = |reason: String| {
        StoreError::new(
            StoreErrorKind::Unauthorized,
            format!("the cluster's nodes and data centers cannot be read: {reason}"),
        )
        .with_hint(
            "let the user select from system.local and system.peers; a guardrail page_size_fail_threshold must \
             allow pages of 1024 rows",
        )
    };
    match deadline.limit(session.refresh_metadata()).await? {
        Ok(()) if is_known(session) => Ok(()),
        Ok(()) => Err(unreadable("Cassandra returned none".to_owned())),
        Err(error) => Err(unreadable(error.to_string()).with_source(error)),
    }
}

/// Returns the error for hosts of which none answered for the time `waited`.
fn silent(config: &CassandraConfig, waited: Duration) -> StoreError {
    let (hosts, millis) = (config.hosts.join(","), waited.as_millis());
    StoreError::new(
        StoreErrorKind::Unavailable,
        format!("Cassandra at {hosts} did not answer within {millis} ms"),
    )
    .with_hint("check the address and the firewall, and check that the node is not hanging")
}

/// Returns the configured hosts that answer a TLS handshake in time; fails if no host does.
async fn hosts_that_answer(config: &CassandraConfig, listener: &Listener) -> Result<Vec<String>, StoreError> {
    let asked = hosts(config).map(|host| async move {
        let is_silent = listener.hears_nothing(host.as_str()).await;
        (!is_silent).then_some(host)
    });
    let hosts: Vec<String> = join_all(asked).await.into_iter().flatten().collect();
    if hosts.is_empty() {
        return Err(silent(config, attempt_timeout(config)));
    }
    Ok(hosts)
}

/// Returns the reason why no session could be opened. If a node closed a connection without a TLS
/// alert, contacts the hosts again to read the alert.
async fn why(
    error: NewSessionError,
    listener: Option<&Listener>,
    config: &CassandraConfig,
    deadline: &Deadline,
) -> StoreError {
    let mut alert = None;
    if let Some(listener) = listener
        && handshake::was_cut(&error)
    {
        let asked = join_all(hosts(config).map(|host| listener.last_word(host)));
        let words = deadline.limit(asked).await.unwrap_or_default();
        alert = words.into_iter().flatten().next();
    }
    handshake::failed(error, alert.as_ref(), config)
}

/// Returns the maximum time of a single attempt at one node.
fn attempt_timeout(config: &CassandraConfig) -> Duration {
    config.connect_timeout / ATTEMPTS_AT_CONNECTING
}

/// Returns the policy that selects any replica of the local data center.
fn balancing(config: &CassandraConfig) -> Arc<dyn LoadBalancingPolicy> {
    let mut balancing = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &config.local_datacenter {
        balancing = balancing
            .prefer_datacenter(datacenter.clone())
            .permit_dc_failover(false);
    }
    balancing.build()
}

/// Returns the builder of a session and, with TLS, the listener that checks whether addresses
/// answer TLS.
async fn builder(config: &CassandraConfig) -> Result<(SessionBuilder, Option<Arc<Listener>>), StoreError> {
    // Disable the driver's retries and speculative requests, because this crate retries requests
    // itself: see `Client::send`.
    let profile = ExecutionProfile::builder()
        .consistency(consistency_of(config.consistency))
        .serial_consistency(Some(serial_of(config.serial_consistency)))
        .load_balancing_policy(balancing(config))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(None)
        .request_timeout(Some(config.schema_timeout))
        .build();
    let pool_size = NonZeroUsize::new(usize::from(config.pool_size)).unwrap_or(NonZeroUsize::MIN);
    let mut builder = SessionBuilder::new()
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(attempt_timeout(config))
        .hostname_resolution_timeout(Some(config.connect_timeout))
        .keepalive_interval(KEEPALIVE_INTERVAL)
        .keepalive_timeout(KEEPALIVE_TIMEOUT)
        // CQL keepalive does not end a handshake if the other machine is gone, so enable TCP
        // keepalive too.
        .tcp_keepalive_interval(KEEPALIVE_INTERVAL)
        .pool_size(PoolSize::PerHost(pool_size))
        .schema_agreement_timeout(config.schema_timeout)
        .schema_agreement_interval(SCHEMA_AGREEMENT_INTERVAL)
        // Fetch only the replication of this keyspace, because routing needs no other metadata.
        .keyspaces_to_fetch([config.keyspace.as_str()])
        .fetch_full_schema_metadata(false)
        .driver_config_reporting(false);
    if let (Some(username), Some(password)) = (&config.username, &config.password) {
        builder = builder.user(username, password);
    }
    let Some(tls) = &config.tls else {
        return Ok((builder.known_nodes(hosts(config)), None));
    };
    let context = crate::tls::context(tls)?;
    let listener = Arc::new(Listener::new(Arc::clone(&context), attempt_timeout(config)));
    let hosts = hosts_that_answer(config, &listener).await?;
    let translator = Arc::clone(&listener);
    let builder = builder
        .known_nodes(hosts)
        .address_translator(translator)
        .tls_context(Some(context));
    Ok((builder, Some(listener)))
}

/// Returns the hosts to contact first, each with its port.
fn hosts(config: &CassandraConfig) -> impl Iterator<Item = String> {
    config.hosts.iter().map(|host| with_port(host))
}

/// Returns `host:port`. An IPv6 address may be with or without brackets.
fn with_port(host: &str) -> String {
    if let Ok(address) = host.parse::<std::net::Ipv6Addr>() {
        return format!("[{address}]:{DEFAULT_PORT}");
    }
    let after_brackets = host.rsplit(']').next().unwrap_or(host);
    if after_brackets.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{DEFAULT_PORT}")
    }
}

/// Checks that the configured data center exists, and that a data center is configured if the
/// cluster has several. Without this check, "local" would mean the data center of any node that
/// answers.
fn check_datacenter(session: &Session, config: &CassandraConfig) -> Result<(), StoreError> {
    let datacenters = datacenters(session);
    let there_are = || {
        let names: Vec<&str> = datacenters.keys().map(String::as_str).collect();
        format!("the cluster has the data centers {}", names.join(", "))
    };
    match &config.local_datacenter {
        Some(name) if !datacenters.contains_key(name) => Err(StoreError::new(
            StoreErrorKind::Invalid,
            format!("the cluster has no data center {name:?}"),
        )
        .with_hint(there_are())),
        None if datacenters.len() > 1 => Err(StoreError::new(
            StoreErrorKind::Invalid,
            "the cluster has several data centers, and the configuration does not name the local one",
        )
        .with_hint(there_are())),
        _ => Ok(()),
    }
}

/// Checks that a majority of replicas decides conditional writes, over all data centers. If two
/// data centers decided separately, each would lose the decisions of the other.
pub(crate) fn check_decisions(client: &Client) -> Result<(), StoreError> {
    let (level, serial) = (client.config.consistency, client.config.serial_consistency);
    let is_alone = datacenters(&client.session).len() <= 1;
    let is_enough = match (level, serial) {
        (ConsistencyLevel::Quorum | ConsistencyLevel::All, ConsistencyLevel::Serial) => true,
        (ConsistencyLevel::Quorum | ConsistencyLevel::LocalQuorum | ConsistencyLevel::All, _) => is_alone,
        _ => false,
    };
    if is_enough {
        return Ok(());
    }
    let (what, hint) = if is_alone {
        (
            "requests with a consistency below a majority",
            "set consistency=local_quorum in the address, or leave consistency out",
        )
    } else {
        (
            "requests to only one of several data centers",
            "set consistency=quorum and serial_consistency=serial in the address, in all processes that \
             write",
        )
    };
    Err(StoreError::new(
        StoreErrorKind::Invalid,
        format!("collections with updates, buckets and queues do not work with {what}"),
    )
    .with_hint(hint))
}

/// Returns an error unless the keyspace exists.
pub(crate) async fn check_keyspace(client: &Client) -> Result<(), StoreError> {
    if keyspace_exists(client).await? {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Table,
        format!("there is no keyspace {}", client.config.keyspace),
    )
    .with_hint("open the store with the option `create`, which creates the keyspace, and apply a schema"))
}

async fn keyspace_exists(client: &Client) -> Result<bool, StoreError> {
    let deadline = client.connect_deadline();
    let text = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let result = client
        .ask(text, (client.config.keyspace.as_str(),), &deadline)
        .await?;
    Ok(!typed_rows::<(String,)>(result)?.is_empty())
}

/// Creates the keyspace of `config`. Does nothing if the keyspace exists, with any replication.
///
/// Without `replication`, the keyspace keeps three copies of each row in each data center, or one
/// per node if there are fewer nodes.
///
/// # Errors
/// The errors of [`CassandraStore::connect`](crate::CassandraStore::connect), and any error of
/// Cassandra when it creates the keyspace.
pub async fn create_keyspace(
    config: CassandraConfig,
    environment: Environment,
    replication: Option<Replication>,
) -> Result<(), StoreError> {
    let client = connect(config, environment).await?;
    let Some(text) = missing_keyspace_cql(&client, replication).await? else {
        return Ok(());
    };
    let deadline = client.schema_deadline();
    client
        .query(&text, (), &deadline)
        .await
        .map(drop)
        .map_err(|failure| failure.error)
}

/// Plan of a keyspace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KeyspacePlan {
    /// Statement by which [`create_keyspace`] would create the keyspace, or `None` if it exists.
    pub statement: Option<String>,
    /// Form of the statements that create its tables.
    pub dialect: Dialect,
    /// Number of tables of all keyspaces of the cluster, without those of Cassandra itself.
    pub tables: u64,
}

/// Plans a keyspace whose tables will serve `needs`.
///
/// # Errors
/// The errors of [`CassandraStore::connect`](crate::CassandraStore::connect) and of
/// [`check_needs`](crate::CassandraStore::check_needs).
pub async fn plan_keyspace(
    config: CassandraConfig,
    environment: Environment,
    replication: Option<Replication>,
    needs: &[Need],
) -> Result<KeyspacePlan, StoreError> {
    let client = connect(config, environment).await?;
    let capabilities = client.capabilities();
    capabilities.check(needs)?;
    Ok(KeyspacePlan {
        statement: missing_keyspace_cql(&client, replication).await?,
        dialect: capabilities.dialect(),
        tables: client.count_tables().await?,
    })
}

async fn missing_keyspace_cql(
    client: &Client,
    replication: Option<Replication>,
) -> Result<Option<String>, StoreError> {
    if keyspace_exists(client).await? {
        return Ok(None);
    }
    let datacenters = copies_of(&datacenters(&client.session), replication.as_ref())?;
    Ok(Some(create_keyspace_cql(&client.config.keyspace, &datacenters)))
}

/// Drops the keyspace of `config` with everything in it. Does nothing if the keyspace does not
/// exist.
///
/// # Errors
/// The errors of [`create_keyspace`].
pub async fn drop_keyspace(config: CassandraConfig, environment: Environment) -> Result<(), StoreError> {
    let client = connect(config, environment).await?;
    let text = format!("DROP KEYSPACE IF EXISTS {}", quoted(&client.config.keyspace));
    let deadline = client.schema_deadline();
    client
        .query(&text, (), &deadline)
        .await
        .map(drop)
        .map_err(|failure| failure.error)
}

/// Returns the statement that creates a keyspace with the given number of copies in each data
/// center.
fn create_keyspace_cql(keyspace: &str, datacenters: &[(String, u8)]) -> String {
    let mut strategy = "'class': 'NetworkTopologyStrategy'".to_owned();
    for (name, copies) in datacenters {
        strategy.push_str(", ");
        strategy.push_str(&string_literal(name));
        strategy.push_str(": ");
        strategy.push_str(&copies.to_string());
    }
    format!(
        "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {{{strategy}}}",
        quoted(keyspace)
    )
}

/// Returns the data centers of the cluster, each with its number of nodes.
pub(crate) fn datacenters(session: &Session) -> BTreeMap<String, usize> {
    let mut datacenters = BTreeMap::new();
    for node in session.get_cluster_state().get_nodes_info() {
        if let Some(name) = &node.datacenter {
            *datacenters.entry(name.clone()).or_insert(0) += 1;
        }
    }
    datacenters
}

/// Returns the number of copies to keep in each data center. `nodes` contains the number of nodes
/// of each data center.
///
/// # Errors
/// A named data center does not exist, or has fewer nodes than the requested copies, so that its
/// rows could not be written.
fn copies_of(
    nodes: &BTreeMap<String, usize>,
    replication: Option<&Replication>,
) -> Result<Vec<(String, u8)>, StoreError> {
    let everywhere = |copies: &dyn Fn(usize) -> u8| -> Vec<(String, u8)> {
        let all = nodes.iter();
        all.map(|(name, nodes)| (name.clone(), copies(*nodes))).collect()
    };
    let datacenters = match replication {
        None => {
            everywhere(&|nodes| u8::try_from(nodes).map_or(DEFAULT_COPIES, |nodes| nodes.min(DEFAULT_COPIES)))
        }
        Some(Replication::Everywhere(copies)) => everywhere(&|_| *copies),
        Some(Replication::Datacenters(datacenters)) => datacenters.clone(),
    };
    let there_are = || {
        let counts = nodes.iter().map(|(name, nodes)| format!("{name}:{nodes}"));
        format!(
            "the cluster's data centers and their nodes are {}; set the number of copies in each data \
             center, for example dc1:3,dc2:2",
            counts.collect::<Vec<_>>().join(",")
        )
    };
    for (name, copies) in &datacenters {
        let message = match nodes.get(name) {
            None => format!("the cluster has no data center {name:?}"),
            Some(nodes) if *nodes < usize::from(*copies) => format!(
                "replication requires {copies} copies in data center {name}, which has fewer nodes: {nodes}"
            ),
            Some(_) => continue,
        };
        return Err(StoreError::new(StoreErrorKind::Invalid, message).with_hint(there_are()));
    }
    Ok(datacenters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_kept_where_there_are_nodes_for_them() {
        let nodes = BTreeMap::from([("dc1".to_owned(), 5), ("dc2".to_owned(), 2)]);
        let copies = |replication: Option<Replication>| copies_of(&nodes, replication.as_ref());
        let named = |dc1: u8, dc2: u8| vec![("dc1".to_owned(), dc1), ("dc2".to_owned(), dc2)];
        assert_eq!(copies(None).expect("it can"), named(3, 2));
        assert_eq!(
            copies(Some(Replication::Everywhere(2))).expect("it can"),
            named(2, 2)
        );
        let alone = vec![("dc1".to_owned(), 4)];
        assert_eq!(
            copies(Some(Replication::Datacenters(alone.clone()))).expect("it can"),
            alone
        );
        assert_eq!(
            create_keyspace_cql("shop", &named(3, 2)),
            "CREATE KEYSPACE IF NOT EXISTS \"shop\" WITH replication = {'class': 'NetworkTopologyStrategy', \
             'dc1': 3, 'dc2': 2}"
        );
        for (replication, message) in [
            (
                Replication::Everywhere(3),
                "replication requires 3 copies in data center dc2, which has fewer nodes: 2",
            ),
            (
                Replication::Datacenters(vec![("dc3".to_owned(), 1)]),
                "the cluster has no data center \"dc3\"",
            ),
        ] {
            let error = copies(Some(replication)).expect_err("it is refused");
            assert_eq!(error.kind(), StoreErrorKind::Invalid);
            assert_eq!(error.to_string(), message);
            assert!(error.hint().is_some_and(|hint| hint.contains("dc1:5,dc2:2")));
        }
    }
}
