use recto_derive::Record;

mod shim {
    pub mod __private {
        pub use recto_model as model;
    }
}

#[derive(Record)]
#[record(collection = "events", key = ["at", "tags"], crate = "shim")]
struct Keys {
    at: Option<i64>,
    tags: Vec<String>,
    bytes: Vec<u8>,
}

fn main() {}
