//! Commands of a login.

use bson::{Bson, Document, doc};

use crate::access::Role;
use crate::mongo::command::MongoCommand;
use crate::mongo::error::Result;
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
    let mongo = std::sync::Arc::clone(&connection.mongo);
    let answered = connection.login.start(&mongo.serving, fields).await?;
    if answered.principal.is_some() {
        connection.set_principal(answered.principal);
    }
    Ok(answered.answer)
}

/// `saslContinue`
pub(super) fn proceed(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let mongo = std::sync::Arc::clone(&connection.mongo);
    let access = &mongo.serving.access;
    let answered = connection.login.proceed(access, command.fields())?;
    if answered.principal.is_some() {
        connection.set_principal(answered.principal);
    }
    Ok(answered.answer)
}

/// `authenticate`
pub(super) async fn by_certificate(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    certified(connection, command.fields()).await
}

async fn certified(connection: &mut MongoConnection, fields: &Document) -> Result<Document> {
    let mongo = std::sync::Arc::clone(&connection.mongo);
    let access = &mongo.serving.access;
    let principal = connection.login.by_certificate(access, fields).await?;
    let answer = doc! { "dbname": "$external", "user": principal.name() };
    connection.set_principal(Some(principal));
    Ok(answer)
}

/// `logout`
pub(super) async fn end(connection: &mut MongoConnection) -> Result<Document> {
    let mongo = std::sync::Arc::clone(&connection.mongo);
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
        // `user alice` or `token grafana`.
        let name = principal.name();
        let name = name.split_once(' ').map_or(name, |(_, name)| name);
        users.push(Bson::from(doc! { "user": name, "db": "admin" }));
        let role = match principal.role() {
            Role::Admin => "root",
            Role::Read => "read",
            Role::Ingest => "ingest",
        };
        roles.push(Bson::from(doc! { "role": role, "db": "admin" }));
    }
    Ok(doc! {
        "authInfo": { "authenticatedUsers": users, "authenticatedUserRoles": roles },
    })
}
