//! Calls to a peer over HTTP. Their errors are clauses about it: `it answered 401 Unauthorized`.

use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

use super::STATE_WITHIN;
use super::connect::PeerConnector;
use super::state::KnownStates;

/// Time after which a connection without a request is closed: a server closes it after ten
/// seconds, and a request that is on its way then is lost.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Silence after which a peer is asked whether it is there.
const SILENT_MAX: Duration = Duration::from_millis(500);
/// Time for the answer to that.
const HEALTH_WITHIN: Duration = Duration::from_millis(500);
/// Time for a call that nobody waits for.
pub(super) const BACKGROUND_WITHIN: Duration = Duration::from_secs(10);
/// Maximum bytes of a state's tables.
pub(super) const STATE_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of the body of an error, or of one that says nothing.
pub(super) const SHORT_BYTES_MAX: usize = 64 << 10;

/// The way to all peers.
#[derive(Clone)]
pub(super) struct PeerHttp {
    client: Client<PeerConnector, Body>,
    /// Runs connections and calls: queries have runtimes of their own, which end with them.
    runtime: Handle,
}

impl PeerHttp {
    /// Returns the way to peers.
    pub(super) fn new(connector: PeerConnector, runtime: Handle) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Self { client, runtime }
    }

    /// Returns the peer at a URL, which gets this token.
    pub(super) fn server(&self, url: &str, token: Option<SecretString>) -> Arc<PeerServer> {
        Arc::new(PeerServer {
            url: url.trim_end_matches('/').to_owned(),
            token,
            http: self.clone(),
            states: KnownStates::default(),
        })
    }
}

/// A peer of the configuration.
pub(super) struct PeerServer {
    url: String,
    token: Option<SecretString>,
    http: PeerHttp,
    /// Its tables, and the states of it that are spent.
    pub(super) states: KnownStates,
}

/// The reason for which a peer does not answer as it should, as a clause.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// It is not there.
    Gone(String),
    /// It has answered something else.
    Refused(String),
}

impl NoAnswer {
    /// Adds the address of the peer.
    pub(super) fn at(self, server: &str) -> Self {
        match self {
            Self::Gone(why) => Self::Gone(format!("{server}: {why}")),
            Self::Refused(why) => Self::Refused(format!("{server}: {why}")),
        }
    }

    /// Returns the clause.
    pub(super) fn why(self) -> String {
        match self {
            Self::Gone(why) | Self::Refused(why) => why,
        }
    }
}

/// The reason for which a request has no answer.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The server has not taken it.
    NotTaken(String),
    /// The server may have taken it.
    Unknown(String),
}

impl fmt::Debug for PeerServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerServer").field(&self.url).finish()
    }
}

impl PeerServer {
    /// Returns its address, as the user wrote it.
    pub(super) fn name(&self) -> &str {
        &self.url
    }

    /// Returns the runtime of calls.
    pub(super) fn runtime(&self) -> &Handle {
        &self.http.runtime
    }

    /// Sends a request. The body of the answer is not read yet.
    ///
    /// # Errors
    /// If no answer comes, or one without success.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let answer = self.reach(method, path, body).await;
        answer.map_err(NoAnswer::why)
    }

    /// As [`PeerServer::call`], and tells whether the peer has answered.
    ///
    /// # Errors
    /// If no answer comes, or one without success.
    pub(super) async fn reach(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let request = self.request(method, path);
        let answer = self.send(request, body).await.map_err(NoAnswer::Gone)?;
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(NoAnswer::Refused(refusal(answer).await)),
        }
    }

    /// Sends a request whose body is JSON, or empty. Returns the answer, with success or without.
    ///
    /// # Errors
    /// If no answer comes.
    pub(super) async fn send_json(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let request = self.request(method, path);
        let json = HeaderValue::from_static("application/json");
        self.send(request.header(CONTENT_TYPE, json), body).await
    }

    fn request(&self, method: Method, path: &str) -> Builder {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, bearer(token)),
            None => request,
        }
    }

    async fn send(&self, request: Builder, body: Bytes) -> Result<Response<Incoming>, String> {
        let request = request.body(Body::from(body)).map_err(|e| cause(&e))?;
        let answer = self.http.client.request(request).await;
        answer.map_err(|e| cause(&e))
    }

    /// Sends a request and reads its answer, which is JSON.
    ///
    /// # Errors
    /// If no answer comes, or one without success.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, String> {
        read_json(self.call(method, path, body).await?).await
    }

    /// Asks for JSON.
    ///
    /// # Errors
    /// As [`PeerServer::ask`].
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// Posts a request that must not happen twice, and reads its answer.
    ///
    /// # Errors
    /// The reason, which tells whether the request may have been taken.
    pub(super) async fn post_once(&self, path: &str, body: Bytes) -> Result<Bytes, CallFailure> {
        let not_taken = |e: &(dyn Error + 'static)| CallFailure::NotTaken(cause(e));
        let request = self.request(Method::POST, path);
        let request = request.body(Body::from(body)).map_err(|e| not_taken(&e))?;
        let answer = match self.http.client.request(request).await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Err(not_taken(&error)),
            Err(error) => return Err(CallFailure::Unknown(cause(&error))),
        };
        let status = answer.status();
        if !status.is_success() {
            // The server itself has refused the request before it took anything of it. What stands
            // before the server may have lost the answer.
            let (said, is_its_own) = refusal_of(answer).await;
            return Err(match is_its_own || status.is_client_error() {
                true => CallFailure::NotTaken(said),
                false => CallFailure::Unknown(said),
            });
        }
        let read = whole(answer, STATE_BYTES_MAX).await;
        read.map_err(CallFailure::Unknown)
    }

    /// Waits for `work` while the peer lives: when nothing comes of it, the peer is asked.
    ///
    /// # Errors
    /// If the peer does not answer that either.
    pub(super) async fn while_alive<T>(&self, work: impl Future<Output = T>) -> Result<T, String> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                () = sleep(SILENT_MAX) => {}
            }
            tokio::select! {
                done = &mut work => return Ok(done),
                alive = self.check_alive() => alive?,
            }
        }
    }

    /// Asks the peer whether it is there.
    ///
    /// # Errors
    /// If it does not answer.
    pub(super) async fn check_alive(&self) -> Result<(), String> {
        let request = Request::get(format!("{}/health", self.url));
        let request = request.body(Body::empty()).map_err(|e| cause(&e))?;
        // Any answer is a sign of life.
        let asked = async {
            let answer = self.http.client.request(request).await;
            whole(answer.map_err(|e| cause(&e))?, SHORT_BYTES_MAX).await
        };
        match timeout(HEALTH_WITHIN, asked).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(why)) => Err(format!("it does not answer: {why}")),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }
}

fn bearer(token: &SecretString) -> HeaderValue {
    let value = Zeroizing::new(["Bearer ", token.expose_secret()].concat());
    let mut value = HeaderValue::from_str(&value).expect("BUG: a token has digits and letters");
    value.set_sensitive(true);
    value
}

pub(super) async fn read_json<T: DeserializeOwned>(
    answer: Response<Incoming>,
) -> Result<T, String> {
    let text = whole(answer, STATE_BYTES_MAX).await?;
    serde_json::from_slice(&text).map_err(|e| {
        format!("its answer cannot be read ({e}): let all servers have one version of logmill")
    })
}

/// Reads a body to its end: otherwise its connection could not be used again.
pub(super) async fn whole(answer: Response<Incoming>, bytes_max: usize) -> Result<Bytes, String> {
    let read = to_bytes(Body::new(answer.into_body()), bytes_max).await;
    read.map_err(|e| broken(&e))
}

/// Returns the reason of an answer that was cut off.
pub(super) fn broken(error: &(dyn Error + 'static)) -> String {
    format!("its answer broke off: {}", cause(error))
}

pub(super) fn late() -> String {
    format!("it does not answer within {} ms", STATE_WITHIN.as_millis())
}

/// Returns the innermost error: those around it tell that a client failed.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

/// Returns the reason that an answer without success tells.
async fn refusal(answer: Response<Incoming>) -> String {
    refusal_of(answer).await.0
}

/// Returns the reason that an answer without success tells, and whether it is a server's own.
async fn refusal_of(answer: Response<Incoming>) -> (String, bool) {
    let status = answer.status();
    let text = whole(answer, SHORT_BYTES_MAX).await.unwrap_or_default();
    let error = error_in(&text);
    let said = match words_of(&error) {
        Some(words) => format!("it answered {status}: {words}"),
        None => format!("it answered {status}"),
    };
    (said, error["code"].is_string())
}

/// Returns the error in the body of an answer; null if there is none.
pub(super) fn error_in(body: &[u8]) -> Value {
    let mut body: Value = serde_json::from_slice(body).unwrap_or_default();
    body.get_mut("error").map(Value::take).unwrap_or_default()
}

/// Returns the message and the hint of an error.
pub(super) fn words_of(error: &Value) -> Option<String> {
    let words = ["message", "hint"].map(|key| error[key].as_str());
    let words: Vec<&str> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}
