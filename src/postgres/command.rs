//! Statements of a session, which no engine sees: settings, transactions, cursors, prepared
//! statements and COPY.
//!
//! A statement that begins with none of their words is a query ([`Command::Query`]). The text of a
//! query within a command is cut out as it stands, so that its hints stay.

mod copying;
mod scan;

use super::copy::CopyOptions;
use super::error::{Result, SqlError};
use scan::{Lexeme, Scan};

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// A question for the engine.
    Query(String),
    Set {
        name: String,
        /// `None` for DEFAULT.
        value: Option<String>,
        is_local: bool,
    },
    /// A setting, or all of them.
    Show(Option<String>),
    Reset(Option<String>),
    Begin,
    Commit,
    Rollback,
    /// A statement without effect here, and its tag.
    Nothing(&'static str),
    Declare {
        cursor: String,
        query: String,
        /// It outlives its transaction.
        stays: bool,
    },
    Fetch {
        cursor: String,
        /// `None` for all.
        rows: Option<usize>,
        /// Only move on.
        is_move: bool,
    },
    /// A cursor, or all of them.
    CloseCursor(Option<String>),
    Copy {
        query: String,
        options: CopyOptions,
    },
    Prepare {
        statement: String,
        sql: String,
    },
    Execute {
        statement: String,
        values: Vec<Option<String>>,
    },
    Deallocate(Option<String>),
    /// Forget statements, cursors and settings.
    DiscardAll,
}

impl Command {
    /// Reads a statement.
    ///
    /// # Errors
    /// If it begins as a command of a session and does not go on as one.
    pub(super) fn read(text: &str) -> Result<Self> {
        let mut scan = Scan::new(text);
        let Some(Lexeme::Word(first)) = scan.peek() else {
            return Ok(Self::Query(text.to_owned()));
        };
        let read: fn(&mut Scan<'_>) -> Result<Option<Self>> = match &*first.to_ascii_uppercase() {
            "SET" => set,
            "SHOW" => show,
            "RESET" => reset,
            "BEGIN" | "START" => |scan| to_end(scan, Self::Begin),
            "COMMIT" | "END" => |scan| to_end(scan, Self::Commit),
            "ROLLBACK" | "ABORT" => rollback,
            "SAVEPOINT" => |scan| to_end(scan, Self::Nothing("SAVEPOINT")),
            "RELEASE" => |scan| to_end(scan, Self::Nothing("RELEASE")),
            "LISTEN" => |scan| to_end(scan, Self::Nothing("LISTEN")),
            "UNLISTEN" => |scan| to_end(scan, Self::Nothing("UNLISTEN")),
            "DECLARE" => declare,
            "FETCH" => |scan| fetch(scan, false),
            "MOVE" => |scan| fetch(scan, true),
            "CLOSE" => |scan| Ok(Some(Self::CloseCursor(name_or_all(scan)?))),
            "COPY" => copying::copy,
            "PREPARE" => prepare,
            "EXECUTE" => execute,
            "DEALLOCATE" => deallocate,
            "DISCARD" => discard,
            _ => return Ok(Self::Query(text.to_owned())),
        };
        scan.next();
        match read(&mut scan)? {
            Some(command) => {
                scan.expect_end()?;
                Ok(command)
            }
            None => Ok(Self::Query(text.to_owned())),
        }
    }
}

/// Skips the rest of a statement whose options have no effect.
fn to_end(scan: &mut Scan<'_>, command: Command) -> Result<Option<Command>> {
    scan.rest();
    Ok(Some(command))
}

fn set(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    let is_local = scan.take("LOCAL");
    if !is_local && scan.take("SESSION") {
        if scan.take("CHARACTERISTICS") {
            return to_end(scan, Command::Nothing("SET"));
        }
        if scan.take("AUTHORIZATION") {
            return role(scan, "SET SESSION AUTHORIZATION");
        }
    }
    if scan.take("TRANSACTION") || scan.take("CONSTRAINTS") {
        return to_end(scan, Command::Nothing("SET"));
    }
    if scan.take("ROLE") {
        return role(scan, "SET ROLE");
    }
    if scan.take("NAMES") {
        return assigned(scan, "client_encoding".to_owned(), is_local);
    }
    if scan.take("TIME") {
        scan.expect("ZONE")?;
        return assigned(scan, "timezone".to_owned(), is_local);
    }
    let name = scan.dotted_name()?;
    if !scan.take_mark('=') {
        scan.expect("TO")?;
    }
    assigned(scan, name, is_local)
}

fn role(scan: &mut Scan<'_>, what: &str) -> Result<Option<Command>> {
    match scan.take("NONE") || scan.take("DEFAULT") {
        true => Ok(Some(Command::Nothing("SET"))),
        false => Err(SqlError::unsupported(what)),
    }
}

/// Reads the values of a setting: words, texts and numbers, with commas between them.
fn assigned(scan: &mut Scan<'_>, name: String, is_local: bool) -> Result<Option<Command>> {
    let is_path = name.eq_ignore_ascii_case("search_path");
    let mut values = Vec::new();
    loop {
        let minus = if scan.take_mark('-') { "-" } else { "" };
        values.push(match scan.next() {
            Some(Lexeme::Word(word)) if word.eq_ignore_ascii_case("DEFAULT") => {
                let value = None;
                return Ok(Some(Command::Set {
                    name,
                    value,
                    is_local,
                }));
            }
            Some(Lexeme::Word(word) | Lexeme::Number(word)) => format!("{minus}{word}"),
            Some(Lexeme::Quoted(text)) if is_path => format!("\"{}\"", text.replace('"', "\"\"")),
            // A text of several schemas is one schema of that name in PostgreSQL; clients that
            // write it mean a list.
            Some(Lexeme::Text(text) | Lexeme::Quoted(text)) => text,
            _ => return Err(scan.wrong("a value")),
        });
        if !scan.take_mark(',') {
            break;
        }
    }
    let value = Some(values.join(", "));
    Ok(Some(Command::Set {
        name,
        value,
        is_local,
    }))
}

/// Statements that SHOW has in the engine's dialect stay queries.
fn show(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    if scan.take("ALL") {
        return Ok(Some(Command::Show(None)));
    }
    if scan.take("TIME") {
        scan.expect("ZONE")?;
        return Ok(Some(Command::Show(Some("timezone".to_owned()))));
    }
    if scan.take("TRANSACTION") {
        scan.expect("ISOLATION")?;
        scan.expect("LEVEL")?;
        return Ok(Some(Command::Show(Some(
            "transaction_isolation".to_owned(),
        ))));
    }
    let engine = [
        "TABLES",
        "COLUMNS",
        "FUNCTIONS",
        "ROLLUPS",
        "CREATE",
        "SCHEMAS",
        "DATABASES",
    ];
    if let Some(Lexeme::Word(word)) = scan.peek()
        && engine.contains(&&*word.to_ascii_uppercase())
    {
        return Ok(None);
    }
    Ok(Some(Command::Show(Some(scan.dotted_name()?))))
}

fn reset(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    if scan.take("ALL") {
        return Ok(Some(Command::Reset(None)));
    }
    if scan.take("ROLE") {
        return Ok(Some(Command::Nothing("RESET")));
    }
    if scan.take("SESSION") {
        scan.expect("AUTHORIZATION")?;
        return Ok(Some(Command::Nothing("RESET")));
    }
    let name = match scan.take("TIME") {
        true => {
            scan.expect("ZONE")?;
            "timezone".to_owned()
        }
        false => scan.dotted_name()?,
    };
    Ok(Some(Command::Reset(Some(name))))
}

fn rollback(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    let _ignored = scan.take("WORK") || scan.take("TRANSACTION");
    match scan.take("TO") {
        true => to_end(scan, Command::Nothing("ROLLBACK")),
        false => to_end(scan, Command::Rollback),
    }
}

fn declare(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    let cursor = scan.name()?;
    while !scan.take("CURSOR") {
        let is_option = ["ASENSITIVE", "INSENSITIVE", "NO", "SCROLL"];
        if scan.take("BINARY") {
            return Err(SqlError::unsupported("a binary cursor"));
        }
        if !is_option.iter().any(|word| scan.take(word)) {
            return Err(scan.wrong("CURSOR"));
        }
    }
    let stays = scan.take("WITH");
    if stays || scan.take("WITHOUT") {
        scan.expect("HOLD")?;
    }
    scan.expect("FOR")?;
    let query = scan.rest().to_owned();
    Ok(Some(Command::Declare {
        cursor,
        query,
        stays,
    }))
}

fn fetch(scan: &mut Scan<'_>, is_move: bool) -> Result<Option<Command>> {
    let has_direction = scan.take("FORWARD");
    if !has_direction && scan.take("NEXT") {
        return fetched(scan, Some(1), is_move);
    }
    for back in ["BACKWARD", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"] {
        if !has_direction && scan.take(back) {
            return Err(SqlError::unsupported(format!("FETCH {back}"))
                .hint("a cursor reads forward only: run the query again"));
        }
    }
    let rows = match scan.peek() {
        Some(Lexeme::Number(number)) => {
            scan.next();
            Some(number.parse().map_err(|_| scan.wrong("a number of rows"))?)
        }
        _ if scan.take("ALL") => None,
        _ => Some(1),
    };
    fetched(scan, rows, is_move)
}

fn fetched(scan: &mut Scan<'_>, rows: Option<usize>, is_move: bool) -> Result<Option<Command>> {
    let _ignored = scan.take("FROM") || scan.take("IN");
    let cursor = scan.name()?;
    Ok(Some(Command::Fetch {
        cursor,
        rows,
        is_move,
    }))
}

fn prepare(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    let statement = scan.name()?;
    // The types follow from the query.
    scan.parenthesis()?;
    scan.expect("AS")?;
    let sql = scan.rest().to_owned();
    Ok(Some(Command::Prepare { statement, sql }))
}

fn execute(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    let statement = scan.name()?;
    let mut values = Vec::new();
    if scan.take_mark('(') {
        loop {
            values.push(scan.literal()?);
            if !scan.take_mark(',') {
                break;
            }
        }
        if !scan.take_mark(')') {
            return Err(scan.wrong(")"));
        }
    }
    Ok(Some(Command::Execute { statement, values }))
}

fn deallocate(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    scan.take("PREPARE");
    Ok(Some(Command::Deallocate(name_or_all(scan)?)))
}

fn name_or_all(scan: &mut Scan<'_>) -> Result<Option<String>> {
    match scan.take("ALL") {
        true => Ok(None),
        false => scan.name().map(Some),
    }
}

fn discard(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    if scan.take("ALL") {
        return Ok(Some(Command::DiscardAll));
    }
    to_end(scan, Command::Nothing("DISCARD"))
}

#[cfg(test)]
mod tests;
