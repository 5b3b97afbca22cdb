//! `recto page`: shows a page as a table, and turns pages by keys.

use std::ops::ControlFlow;

use clap::Args;
use recto::session::PageReply;
use recto::{ErrorKind, ErrorPart, Session};
use recto_api::pages::PageRequest;

use super::page_view::View;
use super::{collection_of, print_json};
use crate::console::{Console, Key, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::store::StoreArgs;

/// Number of rows of the first page if the height of the terminal is unknown.
const DEFAULT_TERMINAL_ROWS: usize = 20;
/// Minimum number of rows of the first page, however low the terminal is.
const MIN_TERMINAL_ROWS: usize = 5;
/// Maximum number of rows of the first page, however high the terminal is.
const MAX_TERMINAL_ROWS: usize = 50;
/// Number of lines around the rows of a page: header, rule, up to four lines of the footer, and the
/// prompt.
const LINES_AROUND_ROWS: usize = 8;

const EXAMPLES: &str = "\
Examples:
  recto page posts --filter 'user_id = \"9f4e…\"'
  recto page flights --filter 'carrier = \"UA\"' --last --fields time_hour,flight,dest
  recto page flights --filter 'carrier = \"UA\"' --from '[\"2013-07-04T12:00:00Z\"]'
  recto page flights --filter 'carrier = \"UA\" AND time_hour < \"2013-07-01T00:00:00Z\"' \\
      --order-by time_hour --page-size 20 --json

On a terminal, keys turn pages: n or → next, p or ← previous, f first, l last, q quit. Without --page-size, \
a page fills the terminal. Elsewhere, the command prints one page, and the tokens of the next and the \
previous page.";

/// Query of a page of a collection, for `page` and `explain`.
#[derive(Debug, Clone, Args)]
pub(crate) struct QueryArgs {
    /// Name of the collection
    pub(crate) collection: String,
    #[command(flatten)]
    pub(crate) request: PageRequest,
}

/// Arguments of `recto page`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    pub(crate) query: QueryArgs,
    /// Print the page as JSON, as the HTTP API returns it
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl QueryArgs {
    /// Converts an error of the query to a failure. For an error in the filter or the sort order,
    /// the message shows its text and the position.
    pub(crate) fn failure(&self, error: recto::Error) -> Failure {
        let column = error.column();
        let is_query = error.kind() == ErrorKind::InvalidQuery;
        let text = match error.part() {
            Some(ErrorPart::Filter) => &self.request.filter,
            Some(ErrorPart::Sort) => &self.request.order_by,
            _ => return Failure::from(error),
        };
        let failure = Failure::from(error);
        match column {
            Some(column) if is_query => failure.pointing(text, column),
            _ => failure,
        }
    }
}

/// Runs `recto page`. On a terminal, it turns pages until the user quits.
pub(crate) async fn run(args: &PageArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let mut request = args.query.request.clone();
    let name = &args.query.collection;
    if args.json {
        let reply = session
            .page(name, &request)
            .await
            .map_err(|error| args.query.failure(error))?;
        print_json(console, &serde_json::json!(reply))?;
        return Ok(Exit::Done);
    }
    let schema = session.schema().await?;
    let collection = collection_of(&schema, name)?;
    if console.is_interactive() && request.page_size.is_none() {
        request.page_size = Some(rows_that_fit(console.height()));
    }
    let mut reply = session
        .page(name, &request)
        .await
        .map_err(|error| args.query.failure(error))?;
    let explained = session
        .explain(name, &request, false)
        .await
        .map_err(|error| args.query.failure(error))?;
    let sort_order = explained.sort_order.to_string();
    loop {
        let view = View {
            collection,
            fields: &request.fields,
            sort_order: &sort_order,
            reply: &reply,
        };
        let lines = view.draw(console)?;
        match turn(&request, &reply, lines, console)? {
            ControlFlow::Continue(next) => request = next,
            ControlFlow::Break(exit) => return Ok(exit),
        }
        reply = session.page(name, &request).await?;
    }
}

/// Waits for a key. Returns the request for the page that the key selects, or the exit code if the
/// user quits.
///
/// `lines` is the number of printed lines of the current page. If all of them are still on the
/// screen, the next page overwrites them.
fn turn(
    request: &PageRequest,
    reply: &PageReply,
    mut lines: usize,
    console: &mut Console,
) -> Result<ControlFlow<Exit, PageRequest>> {
    let done = Ok(ControlFlow::Break(Exit::Done));
    if !console.is_interactive() {
        return done;
    }
    loop {
        console.flush()?;
        let Some(keyboard) = console.keyboard() else {
            return done;
        };
        let position = |page_token: &str, last: bool| PageRequest {
            page_token: page_token.to_owned(),
            last,
            ..request.first_page()
        };
        let next = match keyboard.next_key()? {
            Key::Next | Key::Character('n') if reply.next_page_token.is_empty() => {
                lines += say(console, "this is the last page")?;
                continue;
            }
            Key::Previous | Key::Character('p') if reply.previous_page_token.is_empty() => {
                lines += say(console, "this is the first page")?;
                continue;
            }
            Key::Next | Key::Character('n') => position(&reply.next_page_token, false),
            Key::Previous | Key::Character('p') => position(&reply.previous_page_token, false),
            Key::First | Key::Character('f') => position("", false),
            Key::Last | Key::Character('l') => position("", true),
            Key::Quit | Key::Character('q') => return done,
            Key::Interrupt => return Ok(ControlFlow::Break(Exit::Interrupted)),
            Key::Character(_) | Key::Other => continue,
        };
        if console.height().is_some_and(|height| lines < height)
            && !request.row_page_tokens
            && !request.versions
        {
            write!(console.out(), "{}", over(lines))?;
        } else {
            console.line("")?;
        }
        return Ok(ControlFlow::Continue(next));
    }
}

/// Returns the control sequence that moves the cursor `lines` up and clears the screen from there
/// (ECMA-48).
fn over(lines: usize) -> String {
    format!("\r\u{1b}[{lines}A\u{1b}[J")
}

/// Prints a message below a page. Returns the number of printed lines.
fn say(console: &mut Console, text: &str) -> Result<usize> {
    let text = console.paint(Tone::Warning, text);
    console.line(text)?;
    Ok(1)
}

/// Returns the number of rows that fit on a terminal of the given height together with the page's
/// footer.
fn rows_that_fit(height: Option<usize>) -> i64 {
    let rows = height.map_or(DEFAULT_TERMINAL_ROWS, |height| {
        height.saturating_sub(LINES_AROUND_ROWS)
    });
    i64::try_from(rows.clamp(MIN_TERMINAL_ROWS, MAX_TERMINAL_ROWS)).unwrap_or(i64::MAX)
}
