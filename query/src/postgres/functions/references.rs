//! References to objects: numbers of named objects, and names of numbered ones, as casts to
//! `regclass`, `regtype` and their relatives give them.

use datafusion::common::{Result, ScalarValue};

use super::calls::{Call, maybe, missing, text};
use super::names::{quoted, split};
use super::{Definition, Returns, function_oid, strict};
use crate::postgres::objects::ROLE;
use crate::postgres::session::OWNER;
use crate::postgres::types;

pub(super) const TABLE: &[Definition] = &[
    strict("regclass", (1, 1), Returns::NameOrOid, |c| known(c, class)),
    strict("regtype", (1, 1), Returns::NameOrOid, |c| known(c, of_type)),
    strict("regproc", (1, 1), Returns::NameOrOid, |c| {
        known(c, function)
    }),
    strict("regprocedure", (1, 1), Returns::NameOrOid, |c| {
        known(c, function)
    }),
    strict("regnamespace", (1, 1), Returns::NameOrOid, |c| {
        known(c, schema)
    }),
    strict("regrole", (1, 1), Returns::NameOrOid, |c| known(c, role)),
    strict("to_regclass", (1, 1), Returns::Oid, |c| found(class(c)?)),
    strict("to_regtype", (1, 1), Returns::Oid, |c| found(of_type(c)?)),
    strict("to_regproc", (1, 1), Returns::Oid, |c| found(function(c)?)),
    strict("to_regnamespace", (1, 1), Returns::Oid, |c| {
        found(schema(c)?)
    }),
    strict("to_regrole", (1, 1), Returns::Oid, |c| found(role(c)?)),
    strict("pg_get_userbyid", (1, 1), Returns::Text, user_by_id),
];

/// An object: its number and its name; `None` where there is none of that number or name.
type Reference = Option<(u32, String)>;

/// Returns the name of an object for its number, and the number for its name.
fn known(call: &Call<'_>, find: fn(&Call<'_>) -> Result<Reference>) -> Result<ScalarValue> {
    let found = find(call)?;
    if call.is_number(0) {
        return text(match (found, call.oid(0)?) {
            (Some((_, name)), _) => name,
            (None, 0) => "-".to_owned(),
            (None, number) => number.to_string(),
        });
    }
    match found {
        Some((oid, _)) => Ok(ScalarValue::UInt32(Some(oid))),
        None => Err(missing(call.name, &call.text(0)?)),
    }
}

fn found(named: Reference) -> Result<ScalarValue> {
    Ok(ScalarValue::UInt32(named.map(|(oid, _)| oid)))
}

/// Returns the number that an argument is, as a number or as the text of one.
fn number(call: &Call<'_>) -> Result<Option<u32>> {
    match call.is_number(0) {
        true => Ok(u32::try_from(call.integer(0)?).ok()),
        false => Ok(call.text(0)?.parse().ok()),
    }
}

fn class(call: &Call<'_>) -> Result<Reference> {
    let oid = match number(call)? {
        Some(oid) => Some(oid),
        None => call.table(&call.text(0)?),
    };
    let table = oid.and_then(|oid| call.scope.objects().table(oid));
    Ok(table.map(|table| {
        let name = quoted(&table.name);
        let is_in_path = call.path().contains(&table.schema.as_str());
        let name = match is_in_path {
            true => name,
            false => format!("{}.{name}", quoted(&table.schema)),
        };
        (table.oid, name)
    }))
}

fn of_type(call: &Call<'_>) -> Result<Reference> {
    let row = match number(call)? {
        Some(oid) => types::by_oid(oid),
        None => types::by_name(&call.text(0)?),
    };
    Ok(row.map(|row| (row.oid, row.sql_name.clone())))
}

fn function(call: &Call<'_>) -> Result<Reference> {
    let name = match number(call)? {
        Some(oid) => {
            let mut names = super::names().chain(super::OF_ARRAYS);
            names
                .find(|name| function_oid(name) == oid)
                .map(str::to_owned)
        }
        None => split(&call.text(0)?).and_then(|names| names.last().cloned()),
    };
    Ok(name.map(|name| (function_oid(&name), name)))
}

fn schema(call: &Call<'_>) -> Result<Reference> {
    let objects = call.scope.objects();
    let oid = match number(call)? {
        Some(oid) => Some(oid),
        None => split(&call.text(0)?).and_then(|names| objects.schema_oid(names.last()?)),
    };
    let schema = oid.and_then(|oid| objects.schema(oid));
    Ok(schema.map(|schema| (schema.oid, quoted(&schema.name))))
}

/// Returns the name of a role's number.
fn role_name(call: &Call<'_>, oid: u32) -> Option<String> {
    match oid {
        ROLE => Some(OWNER.to_owned()),
        other if other == ROLE + 1 => Some(call.scope.session.user.clone()),
        _ => None,
    }
}

fn role(call: &Call<'_>) -> Result<Reference> {
    if let Some(oid) = number(call)? {
        return Ok(role_name(call, oid).map(|name| (oid, name)));
    }
    let name = call.text(0)?;
    let roles = [ROLE, ROLE + 1].into_iter();
    let mut roles = roles.filter_map(|oid| Some((oid, role_name(call, oid)?)));
    Ok(roles.find(|(_, known)| *known == name))
}

/// Returns the name of a role, or PostgreSQL's text for a number without one.
fn user_by_id(call: &Call<'_>) -> Result<ScalarValue> {
    let oid = call.oid(0)?;
    let name = role_name(call, oid);
    maybe(Some(name.unwrap_or_else(|| format!("unknown (OID={oid})"))))
}
