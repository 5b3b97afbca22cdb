//! Tests of the help of every command, and of the rejection of arguments.

use std::fmt::Write as _;

use crate::cli::{Cli, Command, program};

fn help(command: &mut clap::Command) -> String {
    command.render_long_help().to_string()
}

#[test]
fn the_help_of_the_program() {
    insta::assert_snapshot!(help(&mut program().term_width(100)));
}

#[test]
fn the_help_of_every_command_has_examples() {
    let mut program = program().term_width(100);
    program.build();
    let mut all = String::new();
    for command in program
        .get_subcommands_mut()
        .filter(|command| command.get_name() != "help")
    {
        let text = help(command);
        assert!(text.contains("Examples:"), "{}", command.get_name());
        writeln!(all, "=== {}\n{text}", command.get_name()).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_help_of_every_command_of_queues_has_examples() {
    let mut program = program().term_width(100);
    program.build();
    let queue = program
        .find_subcommand_mut("queue")
        .unwrap_or_else(|| panic!("there is `recto queue`"));
    let mut all = String::new();
    for command in queue
        .get_subcommands_mut()
        .filter(|command| command.get_name() != "help")
    {
        let text = help(command);
        assert!(text.contains("Examples:"), "{}", command.get_name());
        writeln!(all, "=== {}\n{text}", command.get_name()).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_definition_of_the_commands_is_sound() {
    program().debug_assert();
}

#[test]
fn arguments_that_are_not_right_are_refused() {
    for line in [
        &["page"][..],
        &["page", "posts", "--last", "--page-token", "x"],
        &["page", "posts", "--from", "[1]", "--around", "x"],
        &["page", "posts", "--page-size", "many"],
        &["get", "posts"],
        &["load", "posts"],
        &["load", "posts", "file.csv", "--buffer-mib", "0"],
        &["apply", "--json"],
        &["describe", "--toml", "--json"],
        &["completions", "cobol"],
        &["turn"],
        &["page", "posts", "--colour"],
    ] {
        let outcome = Cli::read(std::iter::once("recto").chain(line.iter().copied()));
        assert_eq!(outcome.unwrap_err().exit_code(), 2, "{line:?}");
    }
}

/// Checks that the options that select the store may be before the command or after it.
#[test]
fn the_store_is_named_before_or_after_the_command() {
    let store_of = |line: &[&str]| {
        let cli = Cli::read(std::iter::once("recto").chain(line.iter().copied()));
        match cli.unwrap_or_else(|error| panic!("{line:?}: {error}")).command {
            Command::Page(args) => (args.store.store, args.store.store_config),
            Command::Demo(args) => (args.store, args.store_config),
            Command::CursorKeys(args) => (args.store().store.clone(), args.store().store_config.clone()),
            other => panic!("{other:?}"),
        }
    };
    for line in [
        &["--store", "x", "page", "posts"][..],
        &["page", "--store", "x", "posts"],
        &["page", "posts", "--store=x"],
        &["--store", "x", "demo"],
        &["--store", "x", "cursor-keys", "list"],
        &["cursor-keys", "--store", "x", "list"],
        &["cursor-keys", "list", "--store", "x"],
        &["--store", "y", "page", "posts", "--store", "x"],
    ] {
        assert_eq!(store_of(line), (Some("x".into()), None), "{line:?}");
    }
    let both = store_of(&["--store-config", "f", "page", "posts", "--store", "x"]);
    assert_eq!(both, (Some("x".into()), Some("f".into())));
}

#[test]
fn a_store_is_not_named_for_what_uses_none() {
    for (line, named) in [
        (
            &["--store", "x", "init"][..],
            "`recto init` uses no store: leave --store out",
        ),
        (
            &["init", "--store", "x"],
            "`recto init` uses no store: leave --store out",
        ),
        (
            &["--store-config", "x", "completions", "bash"],
            "leave --store-config out",
        ),
        (
            &["--store", "x", "token", "list"],
            "`recto token list` uses no store",
        ),
    ] {
        let error = Cli::read(std::iter::once("recto").chain(line.iter().copied())).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line:?}");
        assert!(error.to_string().contains(named), "{line:?}: {error}");
    }
    Cli::read(["recto", "token", "list"]).unwrap();
}

#[test]
fn negative_numbers_are_keys_and_page_sizes() {
    for line in [
        &["get", "readings", "-5", "x"][..],
        &["page", "posts", "--page-size", "-1"],
    ] {
        Cli::read(std::iter::once("recto").chain(line.iter().copied())).unwrap();
    }
}

#[test]
fn a_script_is_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let cli = Cli::read(["recto", "completions", shell]).unwrap();
        let (mut console, screen) = crate::console::Console::captured(80);
        let Command::Completions(args) = cli.command else {
            panic!("{cli:?}")
        };
        crate::commands::completions::run(&args, &mut console).unwrap();
        assert!(screen.out().contains("allow-filter-scan"), "{shell}");
        if shell == "bash" {
            let out = screen.out();
            let options = |command: &str| {
                let at = out.find(&format!("        {command})\n")).unwrap();
                out[at..].lines().nth(1).unwrap().to_owned()
            };
            assert!(
                options("recto").contains("--store "),
                "it may stand before the command"
            );
            assert!(options("recto__subcmd__page").contains("--store "));
            assert!(
                !options("recto__subcmd__init").contains("--store "),
                "it uses none"
            );
        }
    }
}
