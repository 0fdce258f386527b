//! Commands of a login.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use crate::access::{Principal, Role};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::Result;
use crate::mongo::login::LoginAnswer;
use crate::mongo::session::MongoConnection;

/// `saslStart`
pub(super) async fn start(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    begin(connection, command.fields()).await
}

/// The first message of a login, which came with `hello`.
pub(super) async fn speculate(
    connection: &mut MongoConnection,
    begin: &Document,
) -> Result<Document> {
    match begin.contains_key("saslStart") {
        true => self::begin(connection, begin).await,
        false => certified(connection, begin).await,
    }
}

async fn begin(connection: &mut MongoConnection, fields: &Document) -> Result<Document> {
    let mongo = Arc::clone(&connection.mongo);
    let answered = connection.login.start(&mongo.serving, fields).await?;
    Ok(answer(connection, answered))
}

/// `saslContinue`
pub(super) fn proceed(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let mongo = Arc::clone(&connection.mongo);
    let access = &mongo.serving.access;
    let answered = connection.login.proceed(access, command.fields())?;
    Ok(answer(connection, answered))
}

/// Returns the answer to a message of a login; the last one gives the connection its principal.
fn answer(connection: &mut MongoConnection, answered: LoginAnswer) -> Document {
    if answered.principal.is_some() {
        connection.set_principal(answered.principal);
    }
    answered.answer
}

/// `authenticate`
pub(super) async fn by_certificate(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    certified(connection, command.fields()).await
}

async fn certified(connection: &mut MongoConnection, fields: &Document) -> Result<Document> {
    let mongo = Arc::clone(&connection.mongo);
    let access = &mongo.serving.access;
    let principal = connection.login.by_certificate(access, fields).await?;
    let answer = doc! { "dbname": "$external", "user": principal.name() };
    connection.set_principal(Some(principal));
    Ok(answer)
}

/// `logout`
pub(super) async fn end(connection: &mut MongoConnection) -> Result<Document> {
    let mongo = Arc::clone(&connection.mongo);
    let principal = connection.login.without(&mongo.serving.access).await;
    connection.set_principal(principal);
    Ok(doc! {})
}

/// `connectionStatus`
pub(super) fn status(connection: &mut MongoConnection) -> Result<Document> {
    let is_open = connection.serving().access.is_open();
    let (mut users, mut roles) = (Vec::new(), Vec::new());
    // A client that has not logged in may ask who it is.
    if let Ok(principal) = connection.principal("connectionStatus")
        && !is_open
    {
        users.push(Bson::from(
            doc! { "user": user_of(principal), "db": "admin" },
        ));
        roles = roles_of(principal);
    }
    Ok(doc! {
        "authInfo": { "authenticatedUsers": users, "authenticatedUserRoles": roles },
    })
}

/// Returns the name of an account alone: its principal is `user alice` or `token grafana`.
pub(super) fn user_of(principal: &Principal) -> &str {
    let name = principal.name();
    name.split_once(' ').map_or(name, |(_, name)| name)
}

/// Returns the role of an account, by the name of MongoDB's that is nearest.
pub(super) fn roles_of(principal: &Principal) -> Vec<Bson> {
    let role = match principal.role() {
        Role::Admin => "root",
        Role::Read => "read",
        Role::Peer => "readWrite",
        Role::Ingest => "ingest",
    };
    vec![Bson::from(doc! { "role": role, "db": "admin" })]
}
