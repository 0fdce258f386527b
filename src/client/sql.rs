//! Queries of a client.

use std::io::Read;

use chrono_tz::Tz;
use serde_json::json;

use super::Client;
use crate::api::TAG;
use crate::failure::Result;

impl Client {
    /// Sends a query under a tag, which the list of running queries shows. Times without a zone
    /// are of `zone`, and those of the answer are written in it. Returns the body of the answer in
    /// the format `accept`.
    pub(crate) fn sql(
        &self,
        sql: &str,
        zone: Option<Tz>,
        accept: &str,
        tag: &str,
    ) -> Result<impl Read + use<>> {
        let request = self.post_at("/api/v1/sql");
        let request = request.header("Accept", accept).header(TAG, tag);
        let answer = match zone {
            None => request.send(sql),
            Some(zone) => request.send_json(json!({ "sql": sql, "tz": zone.name() })),
        };
        Ok(self.checked(answer)?.into_body().into_reader())
    }
}
