//! `/api/v1/users` and `/api/v1/tokens`: lists and changes of accounts.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::app::App;
use super::login::no_store;
use super::status::Who;
use super::{answer, body};
use crate::access::{Accounts, NewPassword, NewUser, TokenRequest};
use crate::failure::Result;
use crate::listen::Peer;

const BODY_BYTES_MAX: usize = 64 << 10;

/// A request to change the account that its path names: the client, and its address.
type AccountRequest = (State<Arc<App>>, Who, Extension<Peer>, Path<String>);

/// `GET /api/v1/users`.
pub(super) async fn users(State(app): State<Arc<App>>) -> Response {
    answer::json(StatusCode::OK, &app.serving.access.accounts().list_users())
}

/// `GET /api/v1/tokens`.
pub(super) async fn tokens(State(app): State<Arc<App>>) -> Response {
    answer::json(StatusCode::OK, &app.serving.access.accounts().list_tokens())
}

/// `PUT /api/v1/users/{name}` with `{"role","streams","verifier"}`.
pub(super) async fn add_user(asked: AccountRequest, body: Body) -> Response {
    make_from(asked, body, |all, name, user: NewUser| {
        let ((), said) = all.add_user(name, user.grant, user.verifier)?;
        Ok((json!({ "name": name }), said))
    })
    .await
}

/// `PUT /api/v1/users/{name}/password` with `{"verifier"}`.
pub(super) async fn change_password(asked: AccountRequest, body: Body) -> Response {
    make_from(asked, body, |all, name, new: NewPassword| {
        let ((), said) = all.change_password(name, new.verifier)?;
        Ok((json!({ "name": name }), said))
    })
    .await
}

/// `DELETE /api/v1/users/{name}`.
pub(super) async fn remove_user(asked: AccountRequest) -> Response {
    make(asked, |all, name| {
        let ((), said) = all.remove_user(name)?;
        Ok((json!({ "removed": name }), said))
    })
    .await
}

/// `POST /api/v1/tokens/{name}` with `{"role","streams","expires_in_s"}`. The answer is the only
/// one that has the token.
pub(super) async fn create_token(asked: AccountRequest, body: Body) -> Response {
    let mut response = make_from(asked, body, |all, name, request: TokenRequest| {
        let (token, said) = all.create_token(name, &request)?;
        Ok((all.shown_once(name, &token), said))
    })
    .await;
    no_store(&mut response);
    response
}

/// `DELETE /api/v1/tokens/{name}`.
pub(super) async fn revoke_token(asked: AccountRequest) -> Response {
    make(asked, |all, name| {
        let ((), said) = all.revoke_token(name)?;
        Ok((json!({ "revoked": name }), said))
    })
    .await
}

/// Makes a change that the body describes as JSON.
async fn make_from<T: DeserializeOwned + Send + 'static>(
    asked: AccountRequest,
    body: Body,
    change: impl FnOnce(&mut Accounts, &str, T) -> Result<(Value, String)> + Send + 'static,
) -> Response {
    let Some(body) = body::whole(body, BODY_BYTES_MAX).await else {
        return answer::bad_request("the body has at most 64 KiB");
    };
    match serde_json::from_slice(&body) {
        Ok(new) => make(asked, |all, name| change(all, name, new)).await,
        Err(error) => answer::bad_request(error),
    }
}

/// Makes a change on a thread that may block: it is synced to the disk.
async fn make(
    (State(app), Extension(who), Extension(peer), Path(name)): AccountRequest,
    change: impl FnOnce(&mut Accounts, &str) -> Result<(Value, String)> + Send + 'static,
) -> Response {
    let from = Some(peer.ends.client.ip());
    answer::on_a_thread(move || {
        let access = &app.serving.access;
        access.change(&who, from, |all| change(all, &name))
    })
    .await
}
