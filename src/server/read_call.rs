//! Calls of the read APIs that Grafana's data sources speak: the client, and the parameters of the
//! address and of a form in the body.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, OriginalUri, Request};
use axum::http::Method;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::body;
use super::routes::{self, Found, decode};
use super::status::Who;

/// Maximum bytes of a form.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A call before its parameters are read.
pub(super) struct ReadCall {
    pub(super) app: Arc<App>,
    pub(super) who: Who,
    method: Method,
    /// The address as the client wrote it: routers of nested paths see the rest of it only.
    uri: OriginalUri,
    body: Body,
}

impl FromRequest<Arc<App>> for ReadCall {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (mut head, body) = request.into_parts();
        let who = Who::from_request_parts(&mut head, app).await;
        let Ok(uri) = OriginalUri::from_request_parts(&mut head, app).await;
        Ok(Self {
            app: Arc::clone(app),
            who: who.map_err(IntoResponse::into_response)?,
            method: head.method,
            uri,
            body,
        })
    }
}

/// The parameters of a call.
#[derive(Debug)]
pub(super) struct CallParameters(Vec<(String, String)>);

/// A reason why parameters cannot be read.
#[derive(Debug)]
pub(super) struct WrongParameter(pub(super) String);

impl ReadCall {
    /// Reads the parameters. Those of the form have the names that the table of routes knows, as
    /// those of the address.
    ///
    /// # Errors
    /// If the form is too long, or has a parameter that the route does not take, that occurs twice,
    /// or that cannot be decoded.
    pub(super) async fn read(self) -> Result<(Arc<App>, Who, CallParameters), WrongParameter> {
        let wrong = |why: &str| WrongParameter(why.to_owned());
        let form = body::whole(self.body, BODY_BYTES_MAX).await;
        let form = form.ok_or_else(|| wrong("the form has more than 1 MiB"))?;
        let form = std::str::from_utf8(&form).map_err(|_| wrong("the form is not UTF-8"))?;
        let text = [self.uri.query().unwrap_or_default(), form].join("&");
        if let Found::Route(route) = routes::find(&self.method, self.uri.path()) {
            let checked = route.check(&text);
            checked.map_err(|why| WrongParameter(format!("{}; {}", why.message, why.hint)))?;
        }
        Ok((self.app, self.who, CallParameters::of(&text)?))
    }
}

impl CallParameters {
    /// Reads the parameters of an address or a form.
    ///
    /// # Errors
    /// If one cannot be decoded.
    pub(super) fn of(text: &str) -> Result<Self, WrongParameter> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            decode(name).zip(decode(value)).ok_or_else(|| {
                WrongParameter("the parameters are not percent-encoded UTF-8".to_owned())
            })
        });
        Ok(Self(decoded.collect::<Result<_, _>>()?))
    }

    /// Returns a parameter; an empty one is none.
    pub(super) fn text<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next().filter(|value| !value.is_empty())
    }

    /// Returns all values of a parameter.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Returns a parameter that a call must have.
    ///
    /// # Errors
    /// If it is missing or empty.
    pub(super) fn needed<'a>(&'a self, name: &'a str) -> Result<&'a str, WrongParameter> {
        let missing = || WrongParameter(format!("the parameter {name} is missing"));
        self.text(name).ok_or_else(missing)
    }
}
