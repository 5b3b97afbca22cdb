//! Parameters of requests, from the URL or from the body.

use axum::extract::Request;
use axum::http::Uri;
use recto_api::parameters::{ParameterError, Parameters, names_of};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::body;
use crate::problem::Problem;

/// Reads the parameters in the URL of a request as the struct `T`.
pub(crate) fn of_address<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    Ok(parameters(uri, names_of::<T>())?.read()?)
}

/// Parses the parameters in the URL of a request. Rejects names that are not in `known`.
pub(crate) fn parameters(uri: &Uri, known: &[&str]) -> Result<Parameters, Problem> {
    Ok(Parameters::of_query(uri.query().unwrap_or_default(), known)?)
}

/// Rejects a URL that has parameters.
pub(crate) fn no_parameters(uri: &Uri) -> Result<(), Problem> {
    parameters(uri, &[]).map(|_| ())
}

/// Parses the parameters in the JSON body of a request, for parameters that are too long for a URL.
/// Rejects a URL that has parameters too.
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
