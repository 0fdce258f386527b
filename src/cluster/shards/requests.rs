//! Requests that the servers of all shards answer, each for its own store.
//!
//! # Invariant
//! An answer counts if the server had the shard when it answered: the object store names it as the
//! last writer after that, and its epoch is that of before. An event that another server had
//! acknowledged before the request would be missed otherwise.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use futures::future::join_all;
use hyper::Method;

use super::ShardedIntake;
use super::owners::{Owners, within};
use super::status::ShardInfo;
use crate::cluster::calls::{PeerServer, STATE_BYTES_MAX, error_in, whole, words_of};
use crate::cluster::{MISSING, SHARD};

/// A request for the servers of all shards.
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
    /// The shard has nothing of what the request names.
    pub(crate) is_missing: bool,
    pub(crate) body: Bytes,
}

impl ShardReply {
    /// Returns the words of a refusal.
    pub(crate) fn refusal(&self) -> String {
        let words = words_of(&error_in(&self.body));
        words.unwrap_or_else(|| format!("it answered {}", self.status))
    }

    /// Returns the code of a refusal.
    pub(crate) fn code(&self) -> Option<String> {
        error_in(&self.body)["code"].as_str().map(str::to_owned)
    }
}

impl ShardedIntake {
    /// Sends a request to the servers of all shards at once. An answer may take as long as its
    /// server lives; a server that is on its way to another node is waited for.
    ///
    /// # Errors
    /// For a shard without an answer, the reason as a clause. Its server may have done the work.
    pub(crate) async fn send_to_all(
        &self,
        request: &ShardRequest,
    ) -> Vec<(u16, Result<ShardReply, String>)> {
        let owners = &self.0.owners;
        let replies = (0..self.0.shards).map(|shard| async move {
            let reply = owners.reply(shard, request).await;
            (shard, reply)
        });
        join_all(replies).await
    }
}

impl Owners {
    async fn reply(&self, shard: u16, request: &ShardRequest) -> Result<ShardReply, String> {
        let until = self.moved_until();
        let (server, epoch) = loop {
            match self.present(shard).await {
                Ok(found) => break found,
                Err(why) if !self.look_again(until).await => return Err(why),
                Err(_) => {}
            }
        };
        let ShardRequest { method, path, body } = request;
        let asked = async {
            let answer = server.send_json(method.clone(), path, body.clone()).await?;
            let status = answer.status();
            let is_missing = answer.headers().contains_key(MISSING);
            let body = whole(answer, STATE_BYTES_MAX).await?;
            Ok(ShardReply {
                status,
                is_missing,
                body,
            })
        };
        let reply = server.while_alive(asked).await.flatten()?;
        let (now, epoch_now) = self.present(shard).await?;
        match now.name() == server.name() && epoch_now == epoch {
            true => Ok(reply),
            false => Err(format!("it has moved to {} meanwhile", now.name())),
        }
    }

    /// Returns the server that the object store names as that of a shard now, and its epoch.
    async fn present(&self, shard: u16) -> Result<(Arc<PeerServer>, u32), String> {
        let mut places = self.places.iter();
        let place = places.find(|place| place.shard() == Some(shard));
        let place = place.ok_or("no server has it")?;
        let server = place.present_server().await?;
        let told = within(server.get::<ShardInfo>(SHARD)).await?;
        if (told.shard, told.shards) != (shard, self.shards) {
            return Err(format!("{} has another shard", server.name()));
        }
        match told.error {
            Some(why) => Err(why),
            None => Ok((server, told.epoch)),
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::runtime::Handle;

    use super::*;
    use crate::cluster::places::tests::Told;
    use crate::cluster::tests::{answer, serve};

    /// The shard of [`Told::place`].
    const OWN: u16 = 3;

    /// Serves a shard with an epoch, and does work while `during` is called. Returns its address.
    async fn server(epoch: &Arc<Mutex<u32>>, during: impl Fn() + Send + Sync + 'static) -> String {
        let epoch = Arc::clone(epoch);
        let behaviour = move |request: &str| {
            if request.contains(SHARD) {
                let told = ShardInfo {
                    shard: OWN,
                    shards: 4,
                    store: "store".to_owned(),
                    epoch: *epoch.lock(),
                    unsealed: 0,
                    sealed_at_us: 0,
                    behind: None,
                    error: None,
                };
                return Some(answer("200 OK", &json!(told).to_string()));
            }
            during();
            Some(answer("200 OK", "{}"))
        };
        serve(Box::new(behaviour)).await.0
    }

    #[tokio::test]
    async fn an_answer_counts_if_the_server_has_the_shard_when_it_has_given_it() {
        let told = Arc::<Told>::default();
        let owners = Owners::new(vec![told.place()], 4, None, Handle::current());
        let request = ShardRequest {
            method: Method::POST,
            path: "/api/v1/rollups/run".to_owned(),
            body: Bytes::new(),
        };
        let (first, second) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
        let stays = server(&first, || ()).await;
        told.name(&stays);
        let reply = owners.reply(OWN, &request).await.expect("an answer");
        assert_eq!(reply.status, StatusCode::OK);

        // Another server has taken the shard over meanwhile.
        let (next, named) = (server(&second, || ()).await, Arc::clone(&told));
        let moves = server(&first, move || named.name(&next)).await;
        told.name(&moves);
        let why = owners.reply(OWN, &request).await.expect_err("it has moved");
        assert!(why.starts_with("it has moved to http://"), "{why}");

        // It has come back to the same address.
        let restarted = Arc::clone(&first);
        let returns = server(&first, move || *restarted.lock() += 2).await;
        told.name(&returns);
        let why = owners.reply(OWN, &request).await.expect_err("it has moved");
        assert!(why.starts_with("it has moved to http://"), "{why}");
    }
}
