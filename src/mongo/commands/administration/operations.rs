//! `currentOp` and `killOp`: the queries that wait or run, of every listener.

use bson::{Bson, Document, doc};
use query::QueryInfo;
use query::mongo::Filter;

use super::listing::{DATABASE, check_length};
use super::{is_wanted, long, reader};
use crate::mongo::command::{MongoCommand, number};
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::session::MongoConnection;

/// The beginning of the text of a query that reads documents of a stream.
const DOCUMENTS: &str = "documents of ";
/// Fields of `currentOp` that are no conditions on operations.
const OPTIONS: [&str; 3] = ["$all", "$ownOps", "$truncateOps"];

/// `currentOp`. Its other fields are a filter of operations.
pub(super) fn list(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let client = reader(connection, command)?;
    let conditions = command.own_fields();
    let conditions = conditions.filter(|(name, _)| !OPTIONS.contains(name));
    let conditions: Document = conditions
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    let filter = Filter::parse(&conditions)?;
    let owns_only = command.boolean("$ownOps")?.unwrap_or(false);
    let mut queries = connection.serving().queries_for(&client);
    if owns_only && !client.is_local() {
        queries.retain(|query| query.client.as_deref() == Some(client.name()));
    }
    let mut operations = Vec::new();
    for operation in queries.iter().map(operation) {
        if is_wanted(Some(&filter), &operation)? {
            operations.push(operation);
        }
    }
    let answer = doc! { "inprog": operations };
    check_length(&answer)?;
    Ok(answer)
}

/// Returns a query as an operation.
fn operation(query: &QueryInfo) -> Document {
    let stream = query.sql.strip_prefix(DOCUMENTS);
    let namespace = match stream {
        Some(stream) => format!("{DATABASE}.{stream}"),
        None => format!("{DATABASE}.$cmd"),
    };
    let micros = query.elapsed_ms.saturating_mul(1_000);
    let mut operation = doc! {
        "type": "op",
        "desc": "query",
        "opid": long(query.id),
        "active": true,
        "op": "query",
        "ns": namespace,
        "command": { "query": &query.sql },
        "state": query.state.to_string(),
        "secs_running": long(query.elapsed_ms / 1_000),
        "microsecs_running": long(micros),
        "numYields": 0,
        "rowsReturned": long(query.rows_returned),
        "killPending": query.cancelled,
    };
    if let Some(client) = &query.client {
        let user = client
            .split_once(' ')
            .map_or(client.as_str(), |(_, user)| user);
        let users = vec![doc! { "user": user, "db": "admin" }];
        operation.insert("effectiveUsers", users);
    }
    operation
}

/// `killOp`
pub(super) fn kill(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["op"])?;
    let client = reader(connection, command)?;
    let id = command.get("op").ok_or_else(|| command.missing("op"))?;
    let number = match id {
        Bson::String(digits) => digits.parse().ok(),
        given => number(given).and_then(|number| u64::try_from(number).ok()),
    };
    let number = number.ok_or_else(|| {
        let message = "'killOp.op' is no number of an operation; currentOp has them as opid";
        CommandError::new(code::BAD_VALUE, message)
    })?;
    let info = match connection.serving().cancel(&client, number) {
        true => "the query is cancelled",
        // It may have ended since it was listed.
        false => "no query of this number runs",
    };
    Ok(doc! { "info": info })
}
