//! Descriptions, for people, of syntax errors in JSON.

use serde_json::error::Category;

/// Returns a description of `error` without its position. The parser's own message mentions its tokens.
pub fn syntax_error(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let words = words.split(" at line ").next().unwrap_or_default();
    let plain = match words {
        "EOF while parsing a value" => "it ends where a value should stand",
        "EOF while parsing a list" => "it ends inside an array",
        "EOF while parsing an object" => "it ends inside an object",
        "EOF while parsing a string" => "it ends inside a string",
        _ if error.classify() == Category::Eof => "it ends too early",
        "expected ident" => "a word that is not true, false or null; text stands in double quotes",
        "expected value" => "a value should stand here; text stands in double quotes",
        "key must be a string" => "a name should stand here, in double quotes",
        "expected `:`" => "a colon should stand here, after a name",
        "expected `,` or `]`" => "a comma or ] should stand here",
        "expected `,` or `}`" => "a comma or } should stand here",
        "trailing comma" => "a comma stands before the end of an array or object",
        "trailing characters" => "more stands after its end",
        "invalid number" => "a number is not written as JSON writes numbers",
        "number out of range" => "a number is beyond what a double holds; it can be given as a string",
        "invalid escape" => "a string has an escape that JSON does not know",
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a string has a line end or another control character, which is written \\n or \\u000a"
        }
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "a string has half of a character"
        }
        "recursion limit exceeded" => "it nests too deeply",
        other => other,
    };
    plain.to_owned()
}
