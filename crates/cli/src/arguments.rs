//! The command line: what all subcommands share, and the list of them.

use crate::commands::{
    asm, bench, cache, check, completions, conformance_plugin, diff, doctor, ext, lab, link, man, opt, print, rules,
    run, stat,
};
use crate::failure::{Answer, Failure};
use clap::{Args, CommandFactory, Parser, Subcommand};

const AFTER_HELP: &str = "\
Examples:
  kara opt in.o -o out.o             optimize all programs of an object, prove it, ask the kernel
  kara stat in.o out.o               compare size, stack, verifier and machine code
  kara check out.o --original in.o   prove again that the two do the same
  kara doctor                        what this machine can do

Exit status (in every output format):
  0  done          1  the answer is no (not equal, regression, threshold)
  2  the request or the input is wrong
  3  this machine cannot do it        101  a bug in kara";

/// Makes Linux BPF programs smaller and faster, and proves every change.
#[derive(Parser, Debug)]
#[command(name = "kara", version, after_help = AFTER_HELP, subcommand_required = true, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// What all of them take.
    #[command(flatten)]
    pub common: Common,
}

/// Options of every subcommand.
#[derive(Args, Debug, Clone, Copy)]
pub struct Common {
    /// Print one JSON object to stdout, errors included
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Print nothing but errors to stderr
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// Say more about what is done
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,
}

/// The subcommands, those used most first.
#[derive(Subcommand, Debug)]
#[allow(clippy::large_enum_variant)] // There is one, ever.
pub enum Command {
    /// Optimize the programs of an object or a text, prove every rewrite
    Opt(opt::Options),
    /// Prove that two versions do the same, or re-check a certificate
    Check(check::Options),
    /// Size, stack, verifier and machine code figures of programs, or of two versions
    Stat(stat::Options),
    /// Run a program on packets
    Run(run::Options),
    /// Measure how much faster one version of a program runs than another
    Bench(bench::Options),
    /// Print programs as assembly
    Print(print::Options),
    /// Turn text into raw instructions, or into text of another format
    Asm(asm::Options),
    /// Show how the assembly of two versions differs
    Diff(diff::Options),
    /// Show the rewrite rules, and prove that they hold
    Rules(rules::Options),
    /// Look at, empty or merge what `kara opt --cache` keeps
    Cache(cache::Options),
    /// Find out what this machine can do, and what each missing thing disables
    Doctor(doctor::Options),
    /// Packet programs in safe Rust: make, build, check, load
    Ext(ext::Options),
    /// Measure: what other kernels accept, what instructions take
    Lab(lab::Options),
    /// Mask corruption loss on a link
    Link(link::Options),
    /// Print a completion script for a shell
    Completions(completions::Options),
    /// Print the manual page
    Man(man::Options),
    /// Run one program of a conformance suite, as such suites ask for it
    #[command(hide = true)]
    ConformancePlugin(conformance_plugin::Options),
}

impl Command {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Opt(_) => "opt",
            Command::Check(_) => "check",
            Command::Stat(_) => "stat",
            Command::Run(_) => "run",
            Command::Bench(_) => "bench",
            Command::Print(_) => "print",
            Command::Asm(_) => "asm",
            Command::Diff(_) => "diff",
            Command::Rules(_) => "rules",
            Command::Cache(_) => "cache",
            Command::Doctor(_) => "doctor",
            Command::Ext(_) => "ext",
            Command::Lab(_) => "lab",
            Command::Link(_) => "link",
            Command::Completions(_) => "completions",
            Command::Man(_) => "man",
            Command::ConformancePlugin(_) => "conformance-plugin",
        }
    }

    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        match self {
            Command::Opt(options) => options.run(common),
            Command::Check(options) => options.run(common),
            Command::Stat(options) => options.run(common),
            Command::Run(options) => options.run(common),
            Command::Bench(options) => options.run(common),
            Command::Print(options) => options.run(common),
            Command::Asm(options) => options.run(common),
            Command::Diff(options) => options.run(common),
            Command::Rules(options) => options.run(common),
            Command::Cache(options) => options.run(common),
            Command::Doctor(options) => options.run(common),
            Command::Ext(options) => options.run(common),
            Command::Lab(options) => options.run(common),
            Command::Link(options) => options.run(common),
            Command::Completions(options) => options.run(),
            Command::Man(options) => options.run(),
            Command::ConformancePlugin(options) => options.run(),
        }
    }
}

/// The name of a subcommand as a constant.
pub fn known_name(word: &str) -> Option<&'static str> {
    const NAMES: [&str; 17] = [
        "opt",
        "check",
        "stat",
        "run",
        "bench",
        "print",
        "asm",
        "diff",
        "rules",
        "cache",
        "doctor",
        "ext",
        "lab",
        "link",
        "completions",
        "man",
        "conformance-plugin",
    ];
    NAMES.into_iter().find(|n| *n == word)
}

/// The parser, for completions and the manual page.
pub fn parser() -> clap::Command {
    Arguments::command()
}
