//! The commands of an interactive session that begin with a backslash.

use std::path::PathBuf;
use std::str::FromStr;

use query::output::Output as Form;

/// The list of the commands.
pub(super) const HELP: &str = "\
\\d [NAME]            the columns of a table; without a name, the tables
\\dt [PATTERN]        tables, as access, stats.* or *.daily
\\timing [on|off]     the time of each statement
\\x [on|off]          each column on a line of its own
\\o FORM              the form of answers: table, json, ndjson or csv
\\i FILE              run the statements of a file
\\pset pager [on|off] show long answers by $PAGER
\\refresh             read the names for the TAB key again
\\q                   end; so does Ctrl-D
Ctrl-C cancels the running statement, and discards the lines of one that is not complete.
";

/// The beginnings of commands, for the TAB key and for the nearest to one that is not known.
pub(super) const NAMES: [&str; 11] = [
    "\\?",
    "\\d",
    "\\dt",
    "\\i",
    "\\o",
    "\\pset format",
    "\\pset pager",
    "\\q",
    "\\refresh",
    "\\timing",
    "\\x",
];

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meta {
    Describe(String),
    Tables(Option<String>),
    /// `None`: the other state than now.
    Timing(Option<bool>),
    Expanded(Option<bool>),
    Pager(Option<bool>),
    Form(Form),
    File(PathBuf),
    Refresh,
    Help,
    Quit,
}

/// Parses a line that begins with a backslash.
///
/// # Errors
/// A sentence for the user.
pub(super) fn parse(line: &str) -> Result<Meta, String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, rest) = line
        .split_once(char::is_whitespace)
        .map_or((line, ""), |(name, rest)| (name, rest.trim()));
    let named = (!rest.is_empty()).then(|| rest.to_owned());
    let needed = |what: &str| {
        let named = named.clone();
        named.ok_or_else(|| format!("{name} needs {what}; \\? lists the commands"))
    };
    let meta = match name {
        "\\d" | "\\d+" => match named {
            Some(name) if !name.contains(['*', '?']) => Meta::Describe(name),
            pattern => Meta::Tables(pattern),
        },
        "\\dt" | "\\dt+" => Meta::Tables(named),
        "\\timing" => Meta::Timing(switch(rest)?),
        "\\x" => Meta::Expanded(switch(rest)?),
        "\\o" => form(&needed("a form: table, json, ndjson or csv")?)?,
        "\\i" => Meta::File(unquoted(&needed("a file")?).into()),
        "\\pset" => match rest.split_once(char::is_whitespace) {
            Some(("pager", state)) => Meta::Pager(switch(state.trim())?),
            None if rest == "pager" => Meta::Pager(None),
            Some(("format", name)) => form(name.trim())?,
            _ => return Err("\\pset knows `pager [on|off]` and `format FORM`".to_owned()),
        },
        "\\refresh" => Meta::Refresh,
        "\\?" | "\\h" | "\\help" => Meta::Help,
        "\\q" | "\\quit" => Meta::Quit,
        _ => return Err(unknown(name)),
    };
    Ok(meta)
}

fn unknown(name: &str) -> String {
    let first = |known: &'static str| known.split(' ').next().unwrap_or(known);
    match query::nearest(name, NAMES.map(first)) {
        Some(near) => format!("there is no command {name}; did you mean {near}? \\? lists them"),
        None => format!("there is no command {name}; \\? lists them"),
    }
}

/// Returns the name of a file as it is without quotes, or without the backslashes that the TAB key
/// writes before blanks.
fn unquoted(text: &str) -> String {
    for quote in ['\'', '"'] {
        let inner = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.to_owned();
        }
    }
    let mut name = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        name.push(match c {
            '\\' => characters.next().unwrap_or(c),
            c => c,
        });
    }
    name
}

fn switch(text: &str) -> Result<Option<bool>, String> {
    match text {
        "" => Ok(None),
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        _ => Err(format!("{text:?} is neither on nor off")),
    }
}

fn form(name: &str) -> Result<Meta, String> {
    match Form::from_str(name) {
        Ok(Form::Arrow) => {
            Err("arrow is no form for a terminal; write table, json, ndjson or csv".to_owned())
        }
        Ok(form) => Ok(Meta::Form(form)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        for (line, expected) in [
            ("\\d", Meta::Tables(None)),
            ("\\d stats.daily;", Meta::Describe("stats.daily".to_owned())),
            ("\\dt  stats.* ", Meta::Tables(Some("stats.*".to_owned()))),
            ("\\timing", Meta::Timing(None)),
            ("\\x on", Meta::Expanded(Some(true))),
            ("\\pset pager off", Meta::Pager(Some(false))),
            ("\\pset pager", Meta::Pager(None)),
            ("\\pset format csv", Meta::Form(Form::Csv)),
            ("\\o json", Meta::Form(Form::Json)),
            ("\\i a file.sql", Meta::File("a file.sql".into())),
            ("\\i a\\ file.sql", Meta::File("a file.sql".into())),
            ("\\i 'a file.sql'", Meta::File("a file.sql".into())),
            ("\\d stats.*", Meta::Tables(Some("stats.*".to_owned()))),
            ("\\q", Meta::Quit),
        ] {
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn a_wrong_command_is_told() {
        for (line, part) in [
            ("\\z", "no command \\z; \\? lists"),
            ("\\timng on", "no command \\timng; did you mean \\timing?"),
            ("\\psett", "did you mean \\pset?"),
            ("\\x maybe", "neither on nor off"),
            ("\\o", "needs a form"),
            ("\\o arrow", "no form for a terminal"),
            ("\\o xml", "\"xml\""),
            ("\\i", "needs a file"),
            ("\\pset border 2", "\\pset knows"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
