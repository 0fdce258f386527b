//! `usersInfo`: the client itself; accounts are administered elsewhere.

use bson::{Bson, Document, doc};

use crate::mongo::command::MongoCommand;
use crate::mongo::commands::login::{roles_of, user_of};
use crate::mongo::error::Result;
use crate::mongo::session::MongoConnection;

/// `usersInfo`
pub(super) fn info(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let is_open = connection.serving().access.is_open();
    let principal = connection.principal(command.name)?;
    let user = user_of(principal).to_owned();
    let is_asked = !is_open && command.get(command.name).is_none_or(|of| names(of, &user));
    let own = is_asked.then(|| {
        doc! {
            "_id": format!("admin.{user}"),
            "user": &user,
            "db": "admin",
            "roles": roles_of(principal),
            "mechanisms": ["SCRAM-SHA-256"],
        }
    });
    let own: Vec<Document> = own.into_iter().collect();
    Ok(doc! { "users": own })
}

/// Returns whether the argument of the command names a user: 1 and `{forAllDBs: true}` name all.
fn names(asked: &Bson, user: &str) -> bool {
    match asked {
        Bson::String(name) => name == user,
        Bson::Document(of) => of.get_str("user").map_or(true, |name| name == user),
        Bson::Array(several) => several.iter().any(|one| names(one, user)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_in_each_form() {
        for (asked, expected) in [
            (Bson::Int32(1), true),
            (Bson::from("rick"), true),
            (Bson::from("alice"), false),
            (Bson::from(doc! { "user": "rick", "db": "admin" }), true),
            (Bson::from(doc! { "user": "alice", "db": "admin" }), false),
            (Bson::from(doc! { "forAllDBs": true }), true),
            (Bson::from(vec!["alice", "rick"]), true),
            (Bson::from(vec!["alice"]), false),
        ] {
            assert_eq!(names(&asked, "rick"), expected, "{asked}");
        }
    }
}
