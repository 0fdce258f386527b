//! Requests that the servers of several shards answer, each for its own store.

use axum::body::Bytes;
use axum::http::StatusCode;
use futures::future::join_all;
use hyper::Method;

use super::ShardedIntake;
use super::owners::Owners;
use crate::cluster::calls::{STATE_BYTES_MAX, error_in, whole, words_of};

/// A request for the servers of several shards.
#[derive(Debug)]
pub(crate) struct ShardRequest {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: String,
    /// JSON, or nothing.
    pub(crate) body: Bytes,
}

/// The answer of a shard's server.
#[derive(Debug)]
pub(crate) struct ShardReply {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl ShardReply {
    /// Returns the words of a refusal.
    pub(crate) fn refusal(&self) -> String {
        let words = words_of(&error_in(&self.body));
        words.unwrap_or_else(|| format!("it answered {}", self.status))
    }
}

impl ShardedIntake {
    /// Sends a request to the servers of some shards at once. An answer may take as long as its
    /// server lives; one that is on its way to another node is waited for.
    ///
    /// # Errors
    /// For a shard without an answer, the reason as a clause. Its server may have done the work.
    pub(crate) async fn send_to(
        &self,
        shards: Vec<u16>,
        request: &ShardRequest,
    ) -> Vec<(u16, Result<ShardReply, String>)> {
        let owners = &self.0.owners;
        let replies = shards.into_iter().map(|shard| async move {
            let reply = owners.reply(shard, request).await;
            (shard, reply)
        });
        join_all(replies).await
    }
}

impl Owners {
    async fn reply(&self, shard: u16, request: &ShardRequest) -> Result<ShardReply, String> {
        let server = self.find_alive(shard, self.moved_until()).await?;
        let ShardRequest { method, path, body } = request;
        let asked = async {
            let answer = server.send_json(method.clone(), path, body.clone()).await?;
            let status = answer.status();
            let body = whole(answer, STATE_BYTES_MAX).await?;
            Ok(ShardReply { status, body })
        };
        let reply = server.while_alive(asked).await.flatten();
        if reply.is_err() {
            self.doubt(shard);
        }
        reply
    }
}
