//! The help of every command, and arguments that are refused.

use std::fmt::Write as _;

use clap::{CommandFactory, Parser};

use crate::cli::Cli;

fn help(command: &mut clap::Command) -> String {
    command.render_long_help().to_string()
}

#[test]
fn the_help_of_the_program() {
    insta::assert_snapshot!(help(&mut Cli::command().term_width(100)));
}

#[test]
fn the_help_of_every_command_has_examples() {
    let mut program = Cli::command().term_width(100);
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
fn the_definition_of_the_commands_is_sound() {
    Cli::command().debug_assert();
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
        let outcome = Cli::try_parse_from(std::iter::once("recto").chain(line.iter().copied()));
        assert_eq!(outcome.unwrap_err().exit_code(), 2, "{line:?}");
    }
}

#[test]
fn negative_numbers_are_keys_and_page_sizes() {
    for line in [
        &["get", "readings", "-5", "x"][..],
        &["page", "posts", "--page-size", "-1"],
    ] {
        Cli::try_parse_from(std::iter::once("recto").chain(line.iter().copied())).unwrap();
    }
}

#[test]
fn a_script_is_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let cli = Cli::try_parse_from(["recto", "completions", shell]).unwrap();
        let (mut console, screen) = crate::console::Console::captured(80);
        let crate::cli::Command::Completions(args) = cli.command else {
            panic!("{cli:?}")
        };
        crate::commands::completions::run(&args, &mut console).unwrap();
        assert!(screen.out().contains("allow-residual"), "{shell}");
    }
}
