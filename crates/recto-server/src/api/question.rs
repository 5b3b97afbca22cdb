//! The parameters of a page as a request to the engine.

use axum::extract::Request;
use axum::http::Uri;
use recto::session::PageRequest;
use recto::{Error, ErrorPart};

use super::parameters::Parameters;
use crate::problem::Problem;

/// The parameters that say which rows, and which of their fields.
pub(crate) const PARAMETERS: [&str; 14] = [
    "filter",
    "order_by",
    "page_size",
    "page_token",
    "from",
    "around",
    "last",
    "view",
    "fields",
    "allow_residual",
    "row_tokens",
    "versions",
    "edges",
    "estimate",
];

/// The parameters that say where a page starts: one of them at most.
pub(crate) const PLACES: [&str; 4] = ["page_token", "from", "around", "last"];

/// A page that is asked for.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) parameters: Parameters,
    pub(crate) request: PageRequest,
}

impl Question {
    /// The page that a request's parameters ask for; the resource also takes those in `more`.
    pub(crate) fn read(uri: &Uri, more: &[&str]) -> Result<Self, Problem> {
        let known = [&PARAMETERS, more].concat();
        Self::of(Parameters::read(uri, &known)?)
    }

    /// The same, asked for by a request's body.
    pub(crate) async fn of_request(uri: &Uri, request: Request, more: &[&str]) -> Result<Self, Problem> {
        let known = [&PARAMETERS, more].concat();
        Self::of(Parameters::of_request(uri, request, &known).await?)
    }

    fn of(parameters: Parameters) -> Result<Self, Problem> {
        check_places(&parameters)?;
        let text = |name: &str| parameters.text(name).unwrap_or_default().to_owned();
        let given = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        let request = PageRequest {
            filter: text("filter"),
            order_by: text("order_by"),
            page_size: page_size(&parameters)?,
            page_token: text("page_token"),
            last: parameters.flag("last")?,
            from: parameters.text("from").map(str::to_owned),
            around: given("around"),
            fields: parameters.names("fields"),
            view: text("view"),
            allow_residual: parameters.flag("allow_residual")?,
            row_tokens: parameters.flag("row_tokens")?,
            versions: parameters.flag("versions")?,
            edges_both: edges(&parameters)?,
            estimate: parameters.flag("estimate")?,
        };
        Ok(Self { parameters, request })
    }

    /// What was wrong with it, with the parameter it is in.
    pub(crate) fn problem(&self, error: Error) -> Problem {
        let parameter = self.parameter(&error);
        if parameter == Some("view") {
            // It is the name that is wrong, and nothing in the query.
            let problem = Problem::invalid_parameter("view", error.message());
            return match error.hint() {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            };
        }
        let problem = Problem::of_query(error);
        match parameter {
            Some(parameter) => problem.with_parameter(parameter),
            None => problem,
        }
    }

    /// The parameter that an error is about.
    fn parameter(&self, error: &Error) -> Option<&'static str> {
        Some(match error.part()? {
            ErrorPart::Filter => "filter",
            ErrorPart::Sort => "order_by",
            ErrorPart::View => "view",
            ErrorPart::From => "from",
            ErrorPart::Fields => "fields",
            ErrorPart::PageSize => "page_size",
            ErrorPart::Cursor if self.request.around.is_some() => "around",
            ErrorPart::Cursor => "page_token",
            _ => return None,
        })
    }
}

/// A page starts at one place.
fn check_places(parameters: &Parameters) -> Result<(), Problem> {
    let is_given = |name: &&str| match parameters.text(name) {
        None => false,
        Some(text) => match *name {
            "page_token" | "around" => !text.is_empty(),
            "last" => text != "false",
            _ => true,
        },
    };
    let mut given = PLACES.into_iter().filter(is_given);
    match (given.next(), given.next()) {
        (Some(one), Some(other)) => Err(Problem::invalid_parameter(
            other,
            format!("{one} and {other} exclude one another"),
        )
        .with_hint("a page starts at one place: give one of them")),
        _ => Ok(()),
    }
}

/// AIP-158: 0 is the default, negative is refused; what is above the most is coerced by the engine.
fn page_size(parameters: &Parameters) -> Result<Option<i64>, Problem> {
    match parameters.whole("page_size")? {
        Some(negative) if negative < 0 => Err(Problem::invalid_parameter(
            "page_size",
            format!("page_size is {negative}; it cannot be negative"),
        )),
        size => Ok(size),
    }
}

fn edges(parameters: &Parameters) -> Result<bool, Problem> {
    match parameters.text("edges") {
        None => Ok(false),
        Some("both") => Ok(true),
        Some(_) => Err(Problem::invalid_parameter(
            "edges",
            "edges is `both`, or not given",
        )),
    }
}
