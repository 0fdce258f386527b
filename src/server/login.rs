//! Logins over HTTP: the credentials of a request, and the page's session.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use zeroize::{Zeroize, Zeroizing};

use super::app::App;
use super::credentials::{COOKIE, credentials, session_of};
use super::routes::Route;
use super::{answer, body};
use crate::access::{Access, Action, Credentials, Principal, Refused};
use crate::failure::Class;
use crate::listen::Peer;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Seconds after which a browser forgets the session; the server forgets an idle one as soon.
const COOKIE_AGE_S: u64 = crate::access::SESSION_IDLE.as_secs();
const LOGIN_BYTES_MAX: usize = 16 << 10;

/// Returns the address of a request's client.
pub(super) fn client_of(head: &Parts) -> IpAddr {
    let peer = head.extensions.get::<Peer>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| {
        peer.ends.client.ip()
    })
}

/// Returns the principal of a request that may use the route; `None` for a public one.
///
/// # Errors
/// The response to send instead: 401, 403, or 429 after too many failed logins.
pub(super) async fn admit(
    access: &Access,
    (route, action): (&Route, Action),
    head: &Parts,
) -> Result<Option<Arc<Principal>>, Box<Response>> {
    if action == Action::Public {
        // A supervisor's probe with outdated credentials is a probe still.
        return Ok(None);
    }
    let of_certificate = || {
        let user = head.extensions.get::<Peer>()?.user.clone();
        user.map(Credentials::Certificate)
    };
    let given = credentials(&head.headers).map(|given| given.or_else(of_certificate));
    let given = given.map_err(|why| {
        let hint = "send Authorization: Bearer TOKEN, or a user and a password as Basic";
        let refused = answer::of_class(Class::Unauthenticated, why, Some(hint));
        Box::new(challenge(&head.headers, refused))
    })?;
    let admitted = access.admit(given, client_of(head)).await;
    let principal = admitted.map_err(|refused| Box::new(refusal(refused, &head.headers)))?;
    let mut held = String::new();
    let query = head.uri.query().unwrap_or_default();
    let target = route.target(head.uri.path(), query, &mut held);
    if principal.may(action, target) {
        return Ok(Some(principal));
    }
    let message = format!(
        "the role {} of {} does not allow this request{}",
        principal.role().as_str(),
        principal.name(),
        match principal.scope().is_all() {
            true => "",
            false => ", or not for this stream",
        }
    );
    Err(Box::new(answer::of_class(
        Class::Forbidden,
        &message,
        Some("an administrator can create a token with another role: logmill token create"),
    )))
}

fn refusal(refused: Refused, headers: &HeaderMap) -> Response {
    let (class, message, hint) = refused.explained();
    let mut response = answer::of_class(class, message, Some(hint));
    if let Refused::Slow(wait) = refused {
        answer::retry_after(&mut response, wait);
        return response;
    }
    challenge(headers, response)
}

/// Adds `WWW-Authenticate`. The page has a form of its own: Basic would open the browser's.
fn challenge(headers: &HeaderMap, mut response: Response) -> Response {
    let challenge = match headers.contains_key(SEC_FETCH_SITE) {
        true => "Bearer realm=\"logmill\"",
        false => "Basic realm=\"logmill\", charset=\"UTF-8\"",
    };
    let challenge = HeaderValue::from_static(challenge);
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// `GET /api/v1/session`: who the client is, and whether the store asks.
pub(super) async fn session(
    State(app): State<Arc<App>>,
    request: axum::extract::Request,
) -> Response {
    let (head, _) = request.into_parts();
    let access = &app.serving.access;
    let is_open = access.is_open();
    let given = session_of(&head.headers).map(Credentials::Session);
    let admitted = match given {
        None if !is_open => None,
        given => access.admit(given, client_of(&head)).await.ok(),
    };
    let account = admitted.map(|who| json!({ "name": who.name(), "role": who.role().as_str() }));
    let body = json!({ "login": !is_open, "account": account });
    let mut response = answer::json(StatusCode::OK, &body);
    no_store(&mut response);
    response
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    #[serde(default)]
    user: String,
    #[serde(deserialize_with = "secret")]
    password: SecretString,
}

fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<SecretString, D::Error> {
    String::deserialize(from).map(SecretString::from)
}

/// Overwrites a body that held a secret, if nothing else holds its bytes.
fn clear(body: Bytes) {
    if let Ok(mut bytes) = body.try_into_mut() {
        bytes.as_mut().zeroize();
    }
}

/// `POST /api/v1/login` with `{"user","password"}`: begins a session, whose identifier goes into a
/// cookie. A token may stand in the place of the password.
pub(super) async fn login(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(body) = body::whole(body, LOGIN_BYTES_MAX).await else {
        return answer::bad_request("a login has at most 16 KiB");
    };
    let read = serde_json::from_slice(&body);
    clear(body);
    let Ok(Login { user, password }) = read else {
        return answer::bad_request("write a login as {\"user\": …, \"password\": …}");
    };
    let access = &app.serving.access;
    let given = Credentials::Password { user, password };
    let principal = match access.admit(Some(given), peer.ends.client.ip()).await {
        Ok(principal) => principal,
        Err(refused) => return refusal(refused, &headers),
    };
    let body = json!({ "name": principal.name(), "role": principal.role().as_str() });
    let mut response = answer::json(StatusCode::OK, &body);
    if let Some(id) = access.begin_session(&principal) {
        set_cookie(&mut response, id.expose_secret(), COOKIE_AGE_S, &peer);
    }
    no_store(&mut response);
    response
}

/// `POST /api/v1/logout`: ends the session.
pub(super) async fn logout(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    if let Some(id) = session_of(&headers) {
        app.serving.access.end_session(&id);
    }
    let mut response = answer::json(StatusCode::OK, &json!({}));
    set_cookie(&mut response, "", 0, &peer);
    response
}

fn set_cookie(response: &mut Response, id: &str, age_s: u64, peer: &Peer) {
    let secure = if peer.is_tls { "; Secure" } else { "" };
    let text = Zeroizing::new(format!(
        "{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age_s}{secure}"
    ));
    let mut cookie = HeaderValue::from_str(&text).expect("BUG: digits and letters");
    cookie.set_sensitive(true);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
}

pub(super) fn no_store(response: &mut Response) {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
}

#[cfg(test)]
mod tests;
