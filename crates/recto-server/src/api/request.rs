//! Parameters of requests, from addresses and from bodies.

use axum::extract::Request;
use axum::http::Uri;
use recto_api::parameters::{ParameterError, Parameters, names_of};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::body;
use crate::problem::Problem;

/// Reads the parameters of an address.
pub(crate) fn of_address<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    Ok(parameters(uri, names_of::<T>())?.read()?)
}

/// Returns the parameters of an address. `known` has the names of the allowed parameters.
pub(crate) fn parameters(uri: &Uri, known: &[&str]) -> Result<Parameters, Problem> {
    Ok(Parameters::of_query(uri.query().unwrap_or_default(), known)?)
}

/// Rejects all parameters.
pub(crate) fn no_parameters(uri: &Uri) -> Result<(), Problem> {
    parameters(uri, &[]).map(|_| ())
}

/// Returns the parameters of a JSON body, for requests that are too long for an address. The address must have no
/// parameters.
pub(super) async fn in_body(uri: &Uri, request: Request, known: &[&str]) -> Result<Parameters, Problem> {
    no_parameters(uri)?;
    let body = body::read(request).await?;
    let text: &RawValue = body.text()?;
    Ok(Parameters::of_json(text.get(), known)?)
}

impl From<ParameterError> for Problem {
    fn from(error: ParameterError) -> Self {
        let problem = match &error.name {
            Some(name) => Self::invalid_parameter(name, error.message),
            None => Self::invalid_body(error.message),
        };
        match error.hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}
