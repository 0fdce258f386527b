//! `/api/v1/users` and `/api/v1/tokens`: lists and changes of accounts.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::app::App;
use super::login::Peer;
use super::{answer, body};
use crate::access::{Accounts, NewPassword, NewUser, Principal, TokenRequest};
use crate::failure::{Failure, Result, USAGE};

const BODY_BYTES_MAX: usize = 64 << 10;

type Who = Extension<Arc<Principal>>;

/// `GET /api/v1/users`.
pub(super) async fn users(State(app): State<Arc<App>>) -> Response {
    answer::json(StatusCode::OK, &app.serving.access.accounts().list_users())
}

/// `GET /api/v1/tokens`.
pub(super) async fn tokens(State(app): State<Arc<App>>) -> Response {
    answer::json(StatusCode::OK, &app.serving.access.accounts().list_tokens())
}

/// `PUT /api/v1/users/{name}` with `{"role","streams","verifier"}`.
pub(super) async fn add_user(
    State(app): State<Arc<App>>,
    Extension(who): Who,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let user: NewUser = match read(body).await {
        Ok(user) => user,
        Err(refused) => return *refused,
    };
    change(app, who, peer, move |accounts| {
        let ((), said) = accounts.add_user(&name, user.grant, user.verifier)?;
        Ok((json!({ "name": name }), said))
    })
    .await
}

/// `PUT /api/v1/users/{name}/password` with `{"verifier"}`.
pub(super) async fn change_password(
    State(app): State<Arc<App>>,
    Extension(who): Who,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let NewPassword { verifier } = match read(body).await {
        Ok(password) => password,
        Err(refused) => return *refused,
    };
    change(app, who, peer, move |accounts| {
        let ((), said) = accounts.change_password(&name, verifier)?;
        Ok((json!({ "name": name }), said))
    })
    .await
}

/// `DELETE /api/v1/users/{name}`.
pub(super) async fn remove_user(
    State(app): State<Arc<App>>,
    Extension(who): Who,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
) -> Response {
    change(app, who, peer, move |accounts| {
        let ((), said) = accounts.remove_user(&name)?;
        Ok((json!({ "removed": name }), said))
    })
    .await
}

/// `POST /api/v1/tokens/{name}` with `{"role","streams","expires_in_s"}`. The answer is the only
/// one that has the token.
pub(super) async fn create_token(
    State(app): State<Arc<App>>,
    Extension(who): Who,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let request: TokenRequest = match read(body).await {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let mut response = change(app, who, peer, move |accounts| {
        let (token, said) = accounts.create_token(&name, &request)?;
        Ok((accounts.shown_once(&name, &token), said))
    })
    .await;
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}

/// `DELETE /api/v1/tokens/{name}`.
pub(super) async fn revoke_token(
    State(app): State<Arc<App>>,
    Extension(who): Who,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
) -> Response {
    change(app, who, peer, move |accounts| {
        let ((), said) = accounts.revoke_token(&name)?;
        Ok((json!({ "revoked": name }), said))
    })
    .await
}

async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Box<Response>> {
    let Some(body) = body::whole(body, BODY_BYTES_MAX).await else {
        return Err(Box::new(answer::bad_request("the body has at most 64 KiB")));
    };
    serde_json::from_slice(&body).map_err(|e| Box::new(answer::bad_request(e)))
}

/// Changes the accounts on a thread that may block: the change is synced to the disk.
async fn change(
    app: Arc<App>,
    who: Arc<Principal>,
    peer: Peer,
    change: impl FnOnce(&mut Accounts) -> Result<(Value, String)> + Send + 'static,
) -> Response {
    let from = Some(peer.address.ip());
    let work = move || app.serving.access.change(&who, from, change);
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(changed)) => answer::json(StatusCode::OK, &changed),
        Ok(Err(failure)) => refused(&failure),
        Err(_) => answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the request's task failed; see the server's log",
            None,
        ),
    }
}

fn refused(failure: &Failure) -> Response {
    match failure.storage() {
        Some(error) => answer::of_storage(error),
        None if failure.code == USAGE => answer::bad_request(failure),
        None => answer::error(StatusCode::CONFLICT, "conflict", &failure.to_string(), None),
    }
}
