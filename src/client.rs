//! Calls to a running server.

mod connect;
mod ingest;
mod sql;

use std::fmt;
use std::io::Read;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use storage::SourcePosition;
use ureq::http::{HeaderValue, Response};
use ureq::typestate::{WithBody, WithoutBody};
use ureq::{Agent, Body, RequestBuilder};
use zeroize::Zeroizing;

use crate::failure::{FAILED, Failure, Result};
pub(crate) use ingest::{IngestAnswer, IngestRequest, Refusal};

/// A server by its URL.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: String,
    agent: Agent,
    token: Option<SecretString>,
}

#[derive(Debug, Deserialize)]
struct ErrorBody {
    error: ErrorText,
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
    }
}

#[derive(Debug, Deserialize)]
struct ErrorText {
    #[serde(default)]
    code: String,
    message: String,
    #[serde(default)]
    hint: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StreamAnswer {
    name: String,
}

#[derive(Debug, Deserialize)]
struct SourceAnswer {
    states: Vec<PositionAnswer>,
}

#[derive(Debug, Deserialize)]
struct PositionAnswer {
    to: u64,
    content: u64,
}

impl SourceAnswer {
    fn positions(self) -> Vec<SourcePosition> {
        let position = |p: PositionAnswer| SourcePosition {
            to: p.to,
            content: p.content,
        };
        self.states.into_iter().map(position).collect()
    }
}

impl Client {
    /// Sends a token with every request.
    pub(crate) fn with_token(self, token: Option<SecretString>) -> Self {
        Self { token, ..self }
    }

    /// Returns a request with the client's credentials.
    fn request<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.token {
            None => request,
            Some(token) => {
                let value = Zeroizing::new(["Bearer ", token.expose_secret()].concat());
                match HeaderValue::from_str(&value) {
                    Ok(mut value) => {
                        value.set_sensitive(true);
                        request.header("Authorization", value)
                    }
                    // The server's answer tells that the token is not valid.
                    Err(_) => request.header("Authorization", "Bearer"),
                }
            }
        }
    }

    fn get_at(&self, path: &str) -> RequestBuilder<WithoutBody> {
        self.request(self.agent.get(format!("{}{path}", self.base)))
    }

    fn post_at(&self, path: &str) -> RequestBuilder<WithBody> {
        self.request(self.agent.post(format!("{}{path}", self.base)))
    }

    fn put_at(&self, path: &str) -> RequestBuilder<WithBody> {
        self.request(self.agent.put(format!("{}{path}", self.base)))
    }

    fn delete_at(&self, path: &str) -> RequestBuilder<WithoutBody> {
        self.request(self.agent.delete(format!("{}{path}", self.base)))
    }

    /// Returns the server's address, as the user wrote it.
    pub(crate) fn url(&self) -> &str {
        &self.base
    }

    fn fail(&self, error: impl fmt::Display) -> Failure {
        Failure::new(FAILED, format!("{}: {error}", self.base))
    }

    fn checked(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>> {
        let mut answer = answer.map_err(|e| self.fail(e))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        Err(match serde_json::from_str::<ErrorBody>(&text) {
            Ok(ErrorBody { error }) => self.fail(error),
            Err(_) => self.fail(format!("answered {status}")),
        })
    }

    fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Response<Body>> {
        let request = self.get_at(path);
        self.checked(request.query_pairs(query.iter().copied()).call())
    }

    fn json<T: serde::de::DeserializeOwned>(&self, mut answer: Response<Body>) -> Result<T> {
        answer
            .body_mut()
            .with_config()
            .limit(u64::MAX)
            .read_json()
            .map_err(|e| self.fail(e))
    }

    pub(crate) fn stream_names(&self) -> Result<Vec<String>> {
        let answer = self.get("/api/v1/streams", &[])?;
        Ok(self
            .json::<Vec<StreamAnswer>>(answer)?
            .into_iter()
            .map(|s| s.name)
            .collect())
    }

    /// Returns the fields of a stream.
    pub(crate) fn schema(&self, stream: &str) -> Result<query::SchemaInfo> {
        let answer = self.get(&format!("/api/v1/streams/{stream}/schema"), &[])?;
        self.json(answer)
    }

    /// Returns the shard keys that a stream could have, and these, with their effects.
    pub(crate) fn shard_keys(
        &self,
        stream: &str,
        shards: u16,
        also: &[storage::ShardKey],
    ) -> Result<query::ShardKeyInfo> {
        let (shards, also) = (shards.to_string(), also.iter().map(ToString::to_string));
        let also: Vec<String> = also.collect();
        let mut query = vec![("shards", &*shards)];
        query.extend(also.iter().map(|key| ("key", key.as_str())));
        let answer = self.get(&format!("/api/v1/streams/{stream}/shard-keys"), &query)?;
        self.json(answer)
    }

    /// Returns the names of all rollups.
    pub(crate) fn rollups(&self) -> Result<Vec<String>> {
        let answer = self.get("/api/v1/rollups", &[])?;
        let mut names: Vec<String> = self
            .json::<Vec<StreamAnswer>>(answer)?
            .into_iter()
            .map(|r| r.name)
            .collect();
        // A node lists those of each shard.
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Returns the remembered states of a producer, the newest last.
    pub(crate) fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        let answer = self.get("/api/v1/sources", &[("producer", producer)])?;
        let known: Option<SourceAnswer> = self.json(answer)?;
        Ok(known.map(SourceAnswer::positions).unwrap_or_default())
    }

    /// Returns the producers whose names begin with `prefix`.
    pub(crate) fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        let answer = self.get("/api/v1/sources", &[("prefix", prefix)])?;
        self.json(answer)
    }

    /// Posts to a path that needs no body and answers with JSON.
    pub(crate) fn post(&self, path: &str) -> Result<serde_json::Value> {
        let answer = self.checked(self.post_at(path).send_empty())?;
        self.json(answer)
    }

    /// Asks the server for a backup, which it makes on its own machine.
    pub(crate) fn backup(&self, dir: &str) -> Result<storage::BackupReport> {
        let request = self.post_at("/api/v1/backup");
        let answer = request.send_json(serde_json::json!({ "dir": dir }));
        self.json(self.checked(answer)?)
    }

    /// Reads a path that answers with JSON.
    pub(crate) fn get_json(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<serde_json::Value> {
        let query: Vec<_> = query.iter().map(|(name, text)| (*name, &**text)).collect();
        let answer = self.get(path, &query)?;
        self.json(answer)
    }

    /// Posts with parameters, otherwise as [`Client::post`].
    pub(crate) fn post_for<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T> {
        let request = self.post_at(path);
        let request = request.query_pairs(query.iter().map(|(name, text)| (*name, &**text)));
        let answer = self.checked(request.send_empty())?;
        self.json(answer)
    }

    pub(crate) fn drop_partitions(
        &self,
        stream: &str,
        date: &str,
        dry: bool,
    ) -> Result<storage::PartitionReport> {
        let dry = dry.to_string();
        let request = self.delete_at("/api/v1/partitions");
        let query = [("stream", stream), ("date", date), ("dry_run", &dry)];
        let answer = self.checked(request.query_pairs(query).call())?;
        self.json(answer)
    }

    /// Puts a JSON body to a path that answers with JSON.
    pub(crate) fn put_json(&self, path: &str, body: &impl Serialize) -> Result<serde_json::Value> {
        let answer = self.checked(self.put_at(path).send_json(body))?;
        self.json(answer)
    }

    /// Posts a JSON body to a path that answers with JSON.
    pub(crate) fn post_json(&self, path: &str, body: &impl Serialize) -> Result<serde_json::Value> {
        let answer = self.checked(self.post_at(path).send_json(body))?;
        self.json(answer)
    }

    /// Deletes what is at a path.
    pub(crate) fn delete(&self, path: &str) -> Result<serde_json::Value> {
        let answer = self.checked(self.delete_at(path).call())?;
        self.json(answer)
    }

    /// Requests an index of a column.
    pub(crate) fn create_index(
        &self,
        stream: &str,
        field: &str,
        kind: storage::IndexKind,
    ) -> Result<serde_json::Value> {
        let covering = match kind {
            storage::IndexKind::Inverted => "",
            storage::IndexKind::Covering => "?covering=true",
        };
        self.post(&format!("{}{covering}", index_path(stream, field)))
    }

    /// Drops an index.
    pub(crate) fn drop_index(&self, stream: &str, field: &str) -> Result<serde_json::Value> {
        self.delete(&index_path(stream, field))
    }

    /// Drops a rollup that the server's configuration does not name.
    pub(crate) fn drop_rollup(&self, name: &str) -> Result<serde_json::Value> {
        self.delete(&format!("/api/v1/rollups/{name}"))
    }

    /// Posts to `detach`, `attach` or `retain` of partitions.
    pub(crate) fn partitions<T: serde::de::DeserializeOwned>(
        &self,
        verb: &str,
        query: &[(&str, &str)],
    ) -> Result<T> {
        let request = self.post_at(&format!("/api/v1/partitions/{verb}"));
        let answer = self.checked(request.query_pairs(query.iter().copied()).send_empty())?;
        self.json(answer)
    }

    /// Follows a stream, beginning with its last events, as server-sent events.
    pub(crate) fn tail(
        &self,
        stream: &str,
        condition: Option<&str>,
        last: usize,
    ) -> Result<impl Read + use<>> {
        let last = last.to_string();
        let mut query = vec![("stream", stream), ("last", &last)];
        query.extend(condition.map(|c| ("where", c)));
        Ok(self.get("/api/v1/tail", &query)?.into_body().into_reader())
    }
}

/// Escapes the column's name, which users choose freely.
fn index_path(stream: &str, field: &str) -> String {
    let field = utf8_percent_encode(field, NON_ALPHANUMERIC);
    format!("/api/v1/indexes/{stream}/{field}")
}
