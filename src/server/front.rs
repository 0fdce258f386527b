//! Checks of every request before its route: its origin, its path and parameters, and the pace of
//! its body. After the route, errors get one format, and the request is counted.
//!
//! The front encloses the whole router, so that it also covers routes that are added later, the
//! page, and unknown paths.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tower::ServiceExt;

use super::answer;
use super::app::App;
use super::login;
use super::loki;
use super::nodes;
use super::own_names::OwnNames;
use super::prometheus;
use super::routes::{self, Found, Route};
use super::shippers::ErrorForm;
use crate::access::{Action, Principal, Target};
use crate::held::held;
use crate::listen::{Beyond, Peer};
use crate::serve::{Client, Exceeded, Share};

/// Maximum bytes of an error text that a library returned.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Routes that a supervisor may request at any number of connections. Their errors stay text.
const ALWAYS: [&str; 3] = ["/health", "/ready", "/metrics"];
/// Routes of supervisors that need no login and count in no share.
const PROBES: [&str; 2] = ["/health", "/ready"];

/// Routes whose errors have a member `message` too.
const LOKI: &str = "/loki/";

/// Time for which a request beyond a share waits for its answer.
const SLOWED: Duration = Duration::from_millis(250);

/// The outcome of the checks: a principal, or the response to send instead.
type Admitted = Result<Option<Arc<Principal>>, Box<Response>>;

/// The checks, and the routes behind them.
#[derive(Debug)]
pub(super) struct Front {
    own: OwnNames,
    app: Arc<App>,
    router: Router,
}

impl Front {
    /// Creates the front of the listener at `address`.
    pub(super) fn new(app: Arc<App>, address: SocketAddr) -> Self {
        Self {
            own: OwnNames::new(address, &app.serving.config.server.hosts),
            router: super::router(Arc::clone(&app)),
            app,
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Body>) -> Response {
        let labels = RequestLabels::of(&request);
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let form = ErrorForm::of(&head);
        let mut response = self.pass(head, body).await;
        if path.starts_with(LOKI) {
            response = loki::with_message(response).await;
        }
        let response = prometheus::in_form(&path, response).await;
        let response = form.write(response).await;
        self.count(&labels, &response);
        response
    }

    /// Answers a request of a connection beyond a limit of connections: one of a supervisor or of
    /// the operator.
    pub(super) async fn answer_beyond(&self, request: Request<Body>, limit: Beyond) -> Response {
        let labels = RequestLabels::of(&request);
        let (head, body) = request.into_parts();
        let response = match self.own.check(&head) {
            Err(refused) => *refused,
            Ok(()) if self.is_let_in(&head).await => self.pass(head, body).await,
            Ok(()) => beyond(limit),
        };
        self.count(&labels, &response);
        response
    }

    /// Returns whether a request is answered at any number of connections. A command on this
    /// machine that reads the store's directory is: it could change the store without asking.
    async fn is_let_in(&self, head: &Parts) -> bool {
        if ALWAYS.contains(&head.uri.path()) {
            return true;
        }
        let is_near = |peer: &Peer| {
            let from = peer.ends.client.ip().to_canonical();
            from.is_loopback() || from == peer.ends.local.ip().to_canonical()
        };
        head.extensions.get().is_some_and(is_near)
            && !self.app.serving.access.is_open()
            && matches!(self.admit(head).await, Ok(Some(who)) if who.is_local())
    }

    fn count(&self, labels: &RequestLabels, response: &Response) {
        let took = labels.began.elapsed();
        let requests = &self.app.requests;
        requests.count(&labels.method, labels.route, response, took);
    }

    async fn pass(&self, mut head: Parts, body: Body) -> Response {
        // Before the body is read, so that a client without the right cannot make the server work.
        let admitted = self.admit(&head).await;
        if self.is_slowed(&head, &admitted) {
            tokio::time::sleep(SLOWED).await;
        }
        // The account is known by now. A flood of requests that are refused is a flood as well.
        let share = match self.share(&head, &admitted) {
            Ok(share) => Arc::new(share),
            Err(exceeded) => {
                // A client that sends its next request at once would be refused at the speed of
                // the processor.
                tokio::time::sleep(SLOWED).await;
                return answer::of_share(&exceeded);
            }
        };
        match admitted {
            Ok(None) => {}
            Ok(Some(principal)) => {
                let client = Client::new(principal, Arc::clone(&share));
                head.extensions.insert(client);
            }
            Err(refused) => return *refused,
        }
        let response = self.pass_to_router(head, body, &share).await;
        held(response, share).map(Body::new)
    }

    /// Returns the principal of a request that may pass; `None` for a public route.
    async fn admit(&self, head: &Parts) -> Admitted {
        self.own.check(head)?;
        check_framing(head)?;
        let route = check_route(head)?;
        nodes::check(&self.app.serving, route)?;
        match route {
            Some(route) => {
                let asked = (route, nodes::action(&self.app.serving, route));
                login::admit(&self.app.serving.access, asked, head).await
            }
            None => Ok(None),
        }
    }

    /// Returns the share of a request. One that is refused counts for its address. A probe is in no
    /// share, since a supervisor must not be refused, nor is a server of the cluster, which stands
    /// for all its clients and has bounded what each of them takes.
    fn share(&self, head: &Parts, admitted: &Admitted) -> Result<Share, Exceeded> {
        let serving = &self.app.serving;
        if serving.access.is_open() || is_probe(head, admitted) {
            return Ok(Share::default());
        }
        let principal = admitted.as_ref().ok().and_then(Option::as_deref);
        if principal.is_some_and(|who| who.may(Action::TakeParts, Target::Store))
            && nodes::is_of_cluster(serving, head)
        {
            return Ok(Share::default());
        }
        serving.shares.request(login::client_of(head), principal)
    }

    /// Returns whether a request is one of too many probes, which wait.
    fn is_slowed(&self, head: &Parts, admitted: &Admitted) -> bool {
        let serving = &self.app.serving;
        !serving.access.is_open()
            && is_probe(head, admitted)
            && !serving.shares.probe(login::client_of(head))
    }

    async fn pass_to_router(&self, head: Parts, body: Body, share: &Arc<Share>) -> Response {
        let (body, watch) = self.app.bodies.watch(body, share);
        if let Some(refused) = watch.refusal() {
            return refused;
        }
        let path = head.uri.path().to_owned();
        let route_to_shards = nodes::route_to_shards(&self.app.serving, &head);
        let mut request = Request::from_parts(head, body);
        request.extensions_mut().insert(watch.pieces());
        let response = match route_to_shards {
            Some(route) => nodes::send_on(&self.app, route, request).await,
            None => self.router.clone().oneshot(request).await.into_response(),
        };
        match watch.refusal() {
            // The handler answered for a body that it could not read; this response has the
            // reason.
            Some(refused) => refused,
            None => as_json(&path, response).await,
        }
    }
}

fn is_probe(head: &Parts, admitted: &Admitted) -> bool {
    admitted.is_ok() && PROBES.contains(&head.uri.path())
}

/// Labels of a counted request.
#[derive(Debug)]
struct RequestLabels {
    began: Instant,
    method: Method,
    route: &'static str,
}

impl RequestLabels {
    fn of(request: &Request<Body>) -> Self {
        Self {
            began: Instant::now(),
            method: request.method().clone(),
            route: route_name(request.method(), request.uri().path()),
        }
    }
}

/// Returns the route of a request as metrics name it: their number is bounded by the table of
/// routes.
fn route_name(method: &Method, path: &str) -> &'static str {
    match routes::find(method, path) {
        Found::Route(route) => route.path,
        Found::OtherMethods(_) => "other",
        Found::Nothing if dashboards::asset(path).is_some() => "page",
        Found::Nothing => "other",
    }
}

/// Refuses a body in any transfer coding but one `chunked`. A proxy in front may have another
/// opinion of where such a body ends, and the next request of the connection begins there.
fn check_framing(head: &Parts) -> Result<(), Box<Response>> {
    let codings: Vec<_> = head
        .headers
        .get_all(header::TRANSFER_ENCODING)
        .iter()
        .collect();
    let is_chunked = |coding: &&HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if codings.len() <= 1 && codings.iter().all(is_chunked) {
        return Ok(());
    }
    let mut response = answer::error(
        StatusCode::NOT_IMPLEMENTED,
        "transfer_encoding",
        "the body has a Transfer-Encoding other than chunked",
        Some("name a compression in Content-Encoding"),
    );
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    Err(Box::new(response))
}

/// Returns the route of a request; `None` for the page and its assets, which hold no data.
fn check_route(head: &Parts) -> Result<Option<&'static Route>, Box<Response>> {
    let (method, path) = (&head.method, head.uri.path());
    let allow = match routes::find(method, path) {
        Found::Route(route) => {
            let wrong = route.check(head.uri.query().unwrap_or_default());
            return wrong.map(|()| Some(route)).map_err(|wrong| {
                Box::new(answer::error(
                    StatusCode::BAD_REQUEST,
                    "invalid",
                    &wrong.message,
                    Some(&wrong.hint),
                ))
            });
        }
        Found::Nothing if dashboards::asset(path).is_none() => {
            return Err(Box::new(answer::error(
                StatusCode::NOT_FOUND,
                "not_found",
                &format!("there is nothing at {path}"),
                Some("the page is at /, the API under /api/v1/"),
            )));
        }
        Found::Nothing if matches!(*method, Method::GET | Method::HEAD) => return Ok(None),
        Found::Nothing => "GET, HEAD".to_owned(),
        Found::OtherMethods(allow) => allow,
    };
    let message = format!("{path} does not accept {method}");
    let hint = format!("use {allow}");
    let mut response = answer::error(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        &message,
        Some(&hint),
    );
    let allow = HeaderValue::from_str(&allow).expect("BUG: methods are ASCII");
    response.headers_mut().insert(header::ALLOW, allow);
    Err(Box::new(response))
}

/// Returns the response to a request of a connection beyond a limit.
fn beyond(limit: Beyond) -> Response {
    let (class, message, hint) = limit.explained();
    let mut response = answer::of_class(class, message, Some(hint));
    answer::retry_soon(&mut response);
    response
}

/// Converts an error that a library wrote as text into JSON. Routes of supervisors stay text.
async fn as_json(path: &str, response: Response) -> Response {
    let status = response.status();
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let is_json = content_type.is_some_and(|t| t.as_bytes().starts_with(b"application/json"));
    if !(status.is_client_error() || status.is_server_error()) || is_json || ALWAYS.contains(&path)
    {
        return response;
    }
    let text = axum::body::to_bytes(response.into_body(), TEXT_BYTES_MAX).await;
    let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
    let reason = status.canonical_reason().unwrap_or("refused");
    let message = if text.is_empty() {
        reason
    } else {
        text.trim_end()
    };
    let code = match status.is_client_error() {
        true => "invalid",
        false => "internal",
    };
    answer::error(status, code, message, None)
}
