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

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use chrono_tz::Tz;
use query::output::Output as Form;

use self::asker::{Asker, INTERRUPTED, OnInterrupt};
use self::printing::{Printing, show};
use self::repl::Repl;
use super::Context;
use crate::cli::SqlArgs;
use crate::failure::{Failure, Result};
use crate::print;

/// Runs statements, or an interactive session.
pub(super) fn run(context: &Context, args: &SqlArgs) -> Result<ExitCode> {
    let zone = args.tz.as_deref().map(zone).transpose()?;
    if let Some(sql) = &args.query {
        return one(context, sql, zone, args.explain);
    }
    let printing = Printing {
        width: print::width(),
        ..Printing::of(form(context), zone)
    };
    let is_interactive = args.file.is_none() && std::io::stdin().is_terminal();
    if is_interactive {
        if printing.form == Form::Arrow {
            return Err(Failure::usage(
                "an interactive session cannot print arrow; write table, json, ndjson or csv",
            ));
        }
        let asker = Asker::new(context, zone, OnInterrupt::EndStatement)?;
        Repl::new(&asker, printing, args.explain).run()?;
        return Ok(ExitCode::SUCCESS);
    }
    let (text, name) = script::read(args.file.as_deref().unwrap_or(Path::new("-")))?;
    let asker = Asker::new(context, zone, OnInterrupt::EndCommand)?;
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let text = (&*text, &*name);
    let done = script::run(&asker, &printing, args.explain, text, &mut out);
    ended(&asker, done)
}

/// Writes the answer to one statement, or with `explain` its statistics.
pub(super) fn one(
    context: &Context,
    sql: &str,
    zone: Option<Tz>,
    explain: bool,
) -> Result<ExitCode> {
    let asker = Asker::new(context, zone, OnInterrupt::EndCommand)?;
    let printing = Printing {
        width: print::width(),
        ..Printing::of(form(context), zone)
    };
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

fn form(context: &Context) -> Form {
    context.output.map_or(Form::Table, Form::from)
}

fn zone(name: &str) -> Result<Tz> {
    Tz::from_str(name).map_err(|_| {
        Failure::usage(format!(
            "--tz {name}: there is no such time zone; write a name such as Europe/Berlin"
        ))
    })
}
