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

#[derive(Record)]
#[record(collection = "events", key = ["at"], unqiue = ["kind"])]
struct Misspelt2 {
    at: i64,
    kind: i64,
}

#[derive(Record)]
#[record(collection = "events", key = ["at"], unique = ["kind", ["at", "knid"]])]
#[record(view(name = "by_kind", partition = ["kynd"], ordr = ["at"]))]
#[record(view(name = "by_at", partition = ["kind"], collate = "dee", bucket(target = "ten")))]
#[record(view(name = "By Kind", partition = ["kind"], nulls = "lst", verify = "no"))]
struct Options {
    at: i64,
    kind: i64,
}

#[derive(Record)]
#[record(collection = "events", key = ["at"], writes = "append", bucket(time = "kind", width = "1 month"), unique = ["kind"])]
#[record(view(name = "by_kind", partition = ["kind"], rounding = "1 hour"))]
struct Together {
    at: i64,
    kind: i64,
}

#[derive(Record)]
#[record(collection = "events", key = ["at"], view(partition = ["kind"]))]
struct Unnamed {
    at: i64,
    kind: i64,
}

#[derive(Record)]
#[record(collection = "events", key = ["at"], bucket = { rows = 10 })]
struct Braces {
    at: i64,
}

#[derive(Record)]
#[record(collection = "events", key = ["at"])]
#[record(view(name = "by_kind", partition = ["kind"]), view(name = "by_kind", partition = ["at"]))]
struct Twice {
    at: i64,
    kind: i64,
}

#[derive(Record)]
#[record(collection = "events", key = ["at"], writes)]
struct Valueless {
    at: i64,
}

fn main() {}
