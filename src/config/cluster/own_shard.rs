//! The number of a shard; an empty text stands for none where settings are shown.

use serde::{Deserialize, Deserializer, Serializer};

#[expect(clippy::ref_option, reason = "serde's signature")]
pub(super) fn serialize<S: Serializer>(shard: &Option<u16>, to: S) -> Result<S::Ok, S::Error> {
    match shard {
        Some(shard) => to.serialize_u16(*shard),
        None => to.serialize_str(""),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum WrittenShard {
        Number(u16),
        Text(String),
    }
    match WrittenShard::deserialize(from)? {
        WrittenShard::Number(number) => Ok(Some(number)),
        WrittenShard::Text(text) if text.is_empty() => Ok(None),
        WrittenShard::Text(text) => Err(serde::de::Error::custom(format!(
            "shard: {text:?} is no number of a shard"
        ))),
    }
}
