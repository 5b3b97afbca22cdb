//! Descriptions, for people, of syntax errors in JSON.

use serde_json::error::Category;

/// Returns a description of a JSON syntax error in plain words, without its position. The parser's
/// own message contains terms such as `EOF` and `ident`.
pub fn syntax_error(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let words = words.split(" at line ").next().unwrap_or_default();
    let plain = match words {
        "EOF while parsing a value" => "it ends where a value is expected",
        "EOF while parsing a list" => "it ends inside an array",
        "EOF while parsing an object" => "it ends inside an object",
        "EOF while parsing a string" => "it ends inside a string",
        _ if error.classify() == Category::Eof => "it ends too early",
        "expected ident" => "a word other than true, false or null; put text in double quotes",
        "expected value" => "a value is expected here; put text in double quotes",
        "key must be a string" => "a name in double quotes is expected here",
        "expected `:`" => "a colon is expected here, after a name",
        "expected `,` or `]`" => "a comma or ] is expected here",
        "expected `,` or `}`" => "a comma or } is expected here",
        "trailing comma" => "a comma precedes the end of an array or object",
        "trailing characters" => "characters follow its end",
        "invalid number" => "a number has a form that JSON does not allow",
        "number out of range" => "a number is out of the range of a double; you can write it as a string",
        "invalid escape" => "a string has an escape that JSON does not have",
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a string has a line end or another control character; write it as \\n or \\u000a"
        }
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "a string has an unpaired surrogate"
        }
        "recursion limit exceeded" => "it is nested too deeply",
        other => other,
    };
    plain.to_owned()
}
