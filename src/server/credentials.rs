//! The credentials in the head of a request.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretString;
use zeroize::Zeroizing;

use crate::access::Credentials;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The cookie that has the identifier of a session.
pub(crate) const COOKIE: &str = "logmill_session";

/// Reads the credentials of a request. Those of a header win over the page's cookie.
pub(crate) fn credentials(headers: &HeaderMap) -> Result<Option<Credentials>, &'static str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (given.next(), given.next());
    if second.is_some() {
        return Err("the request has more than one Authorization");
    }
    if let Some(value) = first {
        return authorization(value).map(Some);
    }
    if let Some(key) = headers.get(API_KEY) {
        let key = key.to_str().map_err(|_| "X-API-Key is not ASCII text")?;
        return Ok(Some(Credentials::Token(SecretString::from(key))));
    }
    Ok(session_of(headers).map(Credentials::Session))
}

fn authorization(value: &HeaderValue) -> Result<Credentials, &'static str> {
    let text = value
        .to_str()
        .map_err(|_| "Authorization is not ASCII text")?;
    let (scheme, rest) = text.split_once(' ').ok_or("Authorization has no scheme")?;
    let rest = rest.trim();
    let is = |name: &str| scheme.eq_ignore_ascii_case(name);
    // `ApiKey` is Elasticsearch's scheme and `Splunk` the one of its HTTP collector.
    if is("Bearer") || is("Splunk") || is("ApiKey") {
        return Ok(Credentials::Token(SecretString::from(rest)));
    }
    if !is("Basic") {
        return Err("the scheme of Authorization is none of Bearer, Basic, ApiKey and Splunk");
    }
    let decoded = BASE64_STANDARD.decode(rest).ok().map(Zeroizing::new);
    let decoded = decoded
        .as_ref()
        .and_then(|bytes| str::from_utf8(bytes).ok());
    let decoded = decoded.ok_or("Basic is not base 64 of UTF-8")?;
    let pair = decoded.split_once(':');
    let (user, password) = pair.ok_or("Basic has no colon between user and password")?;
    Ok(Credentials::Password {
        user: user.to_owned(),
        password: SecretString::from(password),
    })
}

pub(crate) fn session_of(headers: &HeaderMap) -> Option<SecretString> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then(|| SecretString::from(value))
    })
}
