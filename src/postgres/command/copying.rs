//! `COPY … TO STDOUT` with its options.

use super::Command;
use super::scan::Scan;
use crate::postgres::copy::{CopyForm, CopyOptions};
use crate::postgres::error::{Result, SqlError, state};

pub(super) fn copy(scan: &mut Scan<'_>) -> Result<Option<Command>> {
    let query = match scan.parenthesis()? {
        Some(query) => query.to_owned(),
        None => {
            let table = scan.relation()?;
            match scan.parenthesis()? {
                Some(columns) => format!("SELECT {columns} FROM {table}"),
                None => format!("SELECT * FROM {table}"),
            }
        }
    };
    if scan.take("FROM") {
        let message = "COPY FROM is not supported: SQL only reads";
        let hint = "send lines with `logmill import` or POST /api/v1/ingest/STREAM";
        return Err(SqlError::new(state::READ_ONLY, message).hint(hint));
    }
    scan.expect("TO")?;
    if !scan.take("STDOUT") {
        return Err(SqlError::unsupported("COPY to a file or a program")
            .hint("write COPY … TO STDOUT, or psql's \\copy"));
    }
    let mut options = CopyOptions::default();
    let _ignored = scan.take("WITH");
    if scan.take_mark('(') {
        loop {
            copy_option(scan, &mut options)?;
            if !scan.take_mark(',') {
                break;
            }
        }
        match scan.take_mark(')') {
            true => {}
            false => return Err(scan.wrong(")")),
        }
    } else {
        while !scan.is_at_end() {
            copy_word(scan, &mut options)?;
        }
    }
    options.check()?;
    Ok(Some(Command::Copy { query, options }))
}

/// Reads an option in parentheses.
fn copy_option(scan: &mut Scan<'_>, options: &mut CopyOptions) -> Result<()> {
    let name = scan.name()?;
    match &*name {
        "format" => options.form = CopyForm::named(&scan.word_or_text()?)?,
        "header" => options.has_header = !scan.switch_is_off(),
        "delimiter" => options.delimiter = Some(scan.text()?),
        "null" => options.null = Some(scan.text()?),
        "quote" => options.quote = Some(scan.text()?),
        "escape" => options.escape = Some(scan.text()?),
        "force_quote" if scan.take_mark('*') => options.quotes_all = true,
        "encoding" => copy_encoding(&scan.word_or_text()?)?,
        "freeze" => {
            scan.switch_is_off();
        }
        other => return Err(SqlError::unsupported(format!("the COPY option {other}"))),
    }
    Ok(())
}

/// Reads an option in the form of PostgreSQL before 9.0.
fn copy_word(scan: &mut Scan<'_>, options: &mut CopyOptions) -> Result<()> {
    if scan.take("CSV") {
        options.form = CopyForm::Csv;
    } else if scan.take("BINARY") {
        options.form = CopyForm::Binary;
    } else if scan.take("HEADER") {
        options.has_header = true;
    } else if scan.take("DELIMITER") {
        scan.take("AS");
        options.delimiter = Some(scan.text()?);
    } else if scan.take("NULL") {
        scan.take("AS");
        options.null = Some(scan.text()?);
    } else if scan.take("QUOTE") {
        scan.take("AS");
        options.quote = Some(scan.text()?);
    } else if scan.take("ESCAPE") {
        scan.take("AS");
        options.escape = Some(scan.text()?);
    } else if scan.take("ENCODING") {
        copy_encoding(&scan.word_or_text()?)?;
    } else {
        return Err(scan.wrong("an option of COPY"));
    }
    Ok(())
}

fn copy_encoding(name: &str) -> Result<()> {
    match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" => Ok(()),
        _ => Err(SqlError::unsupported(format!("the encoding {name}"))),
    }
}
