use recto_derive::Record;

#[derive(Record)]
#[record(collection = "events", key = ["user_id", "at"], partition = ["usr_id"], order = ["-at", "kind"], writes = "append")]
struct Misspelt {
    user_id: i64,
    at: i64,
    kind: i64,
}

#[derive(Record)]
#[record(collection = "Events", key = ["at"])]
struct Named {
    at: i64,
    #[record(name = "at")]
    again: i64,
}

#[derive(Record)]
#[record(colection = "events", key = ["at"])]
struct Unknown {
    at: i64,
}

#[derive(Record)]
#[record(collection = "events", key = ["at"], writes = "apend")]
struct Mode {
    at: i64,
}

#[derive(Record)]
#[record(collection = "events")]
struct Keyless {
    at: i64,
}

#[derive(Record)]
struct Tuple(i64);

#[derive(Record)]
#[record(collection = "events", key = "at")]
struct List {
    at: i64,
}

fn main() {}
