//! What a node says of how it answered a statement: for tests that count what was deleted.

use recto_model::Environment;
use recto_store::{StoreError, StoreErrorKind};
use scylla::statement::unprepared::Statement;

use crate::config::CassandraConfig;
use crate::connect::connect;

/// Sends a statement with tracing on, and returns what the nodes did for it, in their words.
///
/// # Errors
/// The cluster cannot be reached, does not take the statement, or has no trace of it.
pub async fn trace(
    config: CassandraConfig,
    environment: Environment,
    text: &str,
) -> Result<Vec<String>, StoreError> {
    let client = connect(config, environment).await?;
    let failed = |what: &str| StoreError::new(StoreErrorKind::Other, format!("{text}: {what}"));
    let mut statement = Statement::new(text);
    statement.set_tracing(true);
    let answered = client.session.query_unpaged(statement, ()).await;
    let answered = answered.map_err(|error| failed("it failed").with_source(error))?;
    let id = answered.tracing_id().ok_or_else(|| failed("it was not traced"))?;
    let traced = client.session.get_tracing_info(&id).await;
    let traced = traced.map_err(|error| failed("its trace cannot be read").with_source(error))?;
    Ok(traced
        .events
        .into_iter()
        .filter_map(|event| event.activity)
        .collect())
}
