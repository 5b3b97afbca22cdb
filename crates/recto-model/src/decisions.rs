//! Check that the design records in `docs/design` name the right tests. A design record names, for
//! each rule of a protocol, the tests that fail without the rule.

/// Asserts that a test runs the protocol without each of its rules, and that a design record names
/// exactly these tests. `rules` is the source code of an enum with more than `least` rules.
/// `models` are the source codes of the tests. `decision` is the text of the design record.
///
/// # Panics
/// If a rule has no test, if there are not more than `least` rules, or if the names of the tests
/// and of the decision differ.
pub fn assert_each_rule_has_a_test(rules: &str, least: usize, models: &[&str], decision: &str) {
    let rules = rules.lines().filter_map(|line| line.strip_prefix("    "));
    let rules = rules.filter_map(|line| line.strip_suffix(','));
    let mut count = 0;
    for rule in rules.filter(|line| line.chars().all(char::is_alphanumeric)) {
        let used = format!("Rule::{rule}");
        assert!(
            models.iter().any(|model| model.contains(&used)),
            "no test leaves out {rule}"
        );
        count += 1;
    }
    assert!(count > least, "{count} rules were found");
    for name in decision.split('`').filter(|word| word.starts_with("without_")) {
        let test = format!("fn {name}()");
        assert!(
            models.iter().any(|model| model.contains(&test)),
            "there is no test {name}"
        );
    }
    for model in models {
        let tests = model
            .split("fn without_")
            .skip(1)
            .filter_map(|rest| rest.split_once("()"));
        for (name, _) in tests {
            assert!(
                decision.contains(&format!("`without_{name}`")),
                "the decision record does not mention without_{name}"
            );
        }
    }
}
