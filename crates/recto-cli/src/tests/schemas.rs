//! Tests of the output of `recto init`, `plan` and `apply`, and of their questions to the user.

use recto::session::{Applied, SchemaPlan};

use super::*;
use crate::commands::schema::{InitArgs, Planned, init, is_agreed, show_applied, show_plan};

fn planned(refused: &[&str], changed: bool) -> Planned {
    let kept = if changed { &["collection notes"][..] } else { &[] };
    let changes = ["collection posts: new", "collection readings: new"];
    Planned {
        store: "recto.data".into(),
        plan: SchemaPlan {
            generation: u64::from(!changed) * 2,
            changes: changes
                .iter()
                .filter(|_| changed)
                .map(ToString::to_string)
                .collect(),
            statements: if changed {
                vec!["CREATE TABLE posts (\n  user_id uuid\n)".into()]
            } else {
                Vec::new()
            },
            kept: kept.iter().map(ToString::to_string).collect(),
            rejected: refused.iter().map(ToString::to_string).collect(),
            misfits: Vec::new(),
            notes: changed
                .then(|| "tables of the cluster: 12 now, 14 after the change".into())
                .into_iter()
                .collect(),
        },
    }
}

/// Runs `show` on a console, and returns its output with the exit code.
fn shown(console: (Console, Screen), show: impl FnOnce(&mut Console) -> Result<Exit>) -> String {
    let (mut console, screen) = console;
    let outcome = show(&mut console);
    let exit = crate::finish(outcome, &mut console);
    format!(
        "{}--- standard error\n{}--- exit {}\n",
        screen.out(),
        screen.err(),
        exit.code()
    )
}

#[test]
fn a_plan_shows_changes_statements_and_what_cannot_be_done() {
    let mut all = String::new();
    for (plan, json) in [
        (planned(&[], true), false),
        (
            planned(&["collection posts: views are not yet supported"], true),
            false,
        ),
        (planned(&[], false), false),
        (planned(&[], true), true),
    ] {
        all.push_str(&shown(console(), |console| show_plan(&plan, json, console)));
    }
    insta::assert_snapshot!(all);
}

fn ask(console: (Console, Screen), plan: &Planned, yes: bool, json: bool) -> String {
    let mut agreed = None;
    let text = shown(console, |console| {
        agreed = Some(is_agreed(plan, yes, json, console)?);
        Ok(Exit::Done)
    });
    format!("{text}--- agreed: {agreed:?}\n")
}

#[test]
fn apply_asks_on_a_terminal_and_refuses_without_one() {
    let plan = planned(&[], true);
    let typing = |answer| {
        let (console, screen) = console();
        (console.pressing(Vec::new()).reading(answer), screen)
    };
    let mut all = String::new();
    for (console, yes) in [
        (typing("y\n"), false),
        (typing("\n"), false),
        (typing(""), false),
        (console(), false),
        (console(), true),
    ] {
        let text = ask(console, &plan, yes, false);
        all.push_str(text.split_once("Statements").unwrap().1);
    }
    insta::assert_snapshot!(all);
    let refused = planned(&["collection posts: views are not yet supported"], true);
    assert!(ask(console(), &refused, true, true).contains("agreed: None"));
    assert!(ask(console(), &planned(&[], false), false, false).contains("agreed: Some(true)"));
}

#[test]
fn shows_the_applied_changes() {
    let applied = Applied {
        generation: 3,
        changes: vec!["collection posts: new".into()],
        kept: vec!["collection notes".into()],
        misfits: Vec::new(),
    };
    let mut all = shown(console(), |console| show_applied(&applied, false, console));
    all.push_str(&shown(console(), |console| show_applied(&applied, true, console)));
    insta::assert_snapshot!(all);
}

#[test]
fn init_writes_the_example_once() {
    let folder = tempfile::tempdir().unwrap();
    let args = InitArgs {
        file: folder.path().join("shop.toml"),
    };
    let first = shown(console(), |console| init(&args, console));
    assert!(
        first.contains("recto apply --schema") && first.ends_with("exit 0\n"),
        "{first}"
    );
    assert_eq!(
        std::fs::read_to_string(&args.file).unwrap(),
        recto::schema::EXAMPLE
    );
    std::fs::write(&args.file, "mine").unwrap();
    let second = shown(console(), |console| init(&args, console));
    assert!(
        second.contains("already exists") && second.ends_with("exit 2\n"),
        "{second}"
    );
    assert_eq!(std::fs::read_to_string(&args.file).unwrap(), "mine");
}
