//! Measures the buckets that result from flows of rows. The engine runs in virtual time: eight processes on a store in
//! memory with simulated latency. The flows are Poisson, daily and bursty flows, the flights, and the history of a
//! repository.
//!
//! ```text
//! unzip -p crates/recto-cli/data/flights.csv.zip > /tmp/flights.csv
//! git -C some/repository log --reverse --format='%ct %at' > /tmp/commits.txt
//! cargo run --release -p recto-buckets --example bucket_strategies -- /tmp/flights.csv /tmp/commits.txt
//! ```
//!
//! A third argument is a part of a flow's name, and the program skips all other flows. Rows of the random
//! flows have about a hundred bytes, and a bucket has a megabyte. A bucket of ten megabytes with rows of a
//! kilobyte has the same number of rows, but would need ten times the memory.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

mod flows;
mod measured;
mod run;
mod store;

use std::rc::Rc;

use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::flows::Flow;

fn in_virtual_time(flow: &Rc<Flow>) {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let begun = std::time::Instant::now();
    let told = runtime
        .unwrap()
        .block_on(LocalSet::new().run_until(run::run(flow)));
    told.print(flow);
    println!("    in {:.0} s", begun.elapsed().as_secs_f64());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = arguments.get(2).map_or("", String::as_str);
    for flow in Flow::all(arguments.first(), arguments.get(1)) {
        if flow.name.contains(asked) {
            in_virtual_time(&Rc::new(flow));
        }
    }
}
