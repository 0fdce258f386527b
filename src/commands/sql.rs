//! `logmill sql`: one statement, the statements of a file, or an interactive session.

mod asker;
mod caret;
mod completion;
mod describe;
mod editor;
mod history;
mod interrupts;
mod meta;
mod pager;
mod printing;
mod progress;
mod repl;
mod script;
mod shell;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use chrono_tz::Tz;
use query::output::Output as Form;

use self::asker::{Asker, INTERRUPTED, OnInterrupt};
use self::printing::{Printing, show};
use self::repl::Repl;
use self::shell::Shell;
use super::Context;
use crate::cli::SqlArgs;
use crate::failure::{Failure, Result};
use crate::print;

/// The name of standard input where a file is expected.
const STDIN: &str = "-";

/// Runs statements, or an interactive session.
pub(super) fn run(context: &Context, args: &SqlArgs) -> Result<ExitCode> {
    let zone = args.tz.as_deref().map(zone).transpose()?;
    let file = match args.query.as_deref() {
        Some(STDIN) => Some(Path::new(STDIN)),
        Some(sql) => return one(context, sql, zone, args.explain),
        None => args.file.as_deref(),
    };
    let printing = printing(context, zone);
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if file.is_none() && is_terminal {
        if printing.form == Form::Arrow {
            return Err(Failure::usage(
                "an interactive session cannot print arrow; write table, json, ndjson or csv",
            ));
        }
        let asker = Asker::interactive(context, zone)?;
        Repl::start(Shell::new(&asker, printing, args.explain).with_pager())?.run()?;
        return Ok(ExitCode::SUCCESS);
    }
    let (text, name) = script::read(file.unwrap_or(Path::new(STDIN)))?;
    let asker = Asker::new(
        context,
        context.place.clone(),
        zone,
        OnInterrupt::EndCommand,
    )?;
    let mut shell = Shell::new(&asker, printing, args.explain);
    let done = script::run(&mut shell, &text, &name);
    ended(&asker, done.map(drop))
}

/// Writes the answer to one statement, or with `explain` its statistics.
pub(super) fn one(
    context: &Context,
    sql: &str,
    zone: Option<Tz>,
    explain: bool,
) -> Result<ExitCode> {
    let asker = Asker::new(
        context,
        context.place.clone(),
        zone,
        OnInterrupt::EndCommand,
    )?;
    let printing = printing(context, zone);
    let done = match explain {
        true => {
            let figures = asker.figures(sql);
            figures.and_then(|figures| show(&figures, printing.form))
        }
        false => {
            let mut out = std::io::BufWriter::new(std::io::stdout());
            asker.print(sql, &printing, &mut out)
        }
    };
    ended(&asker, done)
}

/// Returns the exit code of a command. One that Ctrl-C has ended tells no error.
fn ended(asker: &Asker<'_>, done: Result<()>) -> Result<ExitCode> {
    match done {
        Err(_) if asker.is_interrupted() => Ok(ExitCode::from(INTERRUPTED)),
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

/// Returns the form of answers that the command line asks for.
fn printing(context: &Context, zone: Option<Tz>) -> Printing {
    let form = context.output.map_or(Form::Table, Form::from);
    Printing {
        width: print::width(),
        ..Printing::of(form, zone)
    }
}

fn zone(name: &str) -> Result<Tz> {
    Tz::from_str(name).map_err(|_| {
        Failure::usage(format!(
            "--tz {name}: there is no such time zone; write a name such as Europe/Berlin"
        ))
    })
}
