//! Errors of librdkafka as refusals.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::client::Refusal;
use crate::librdkafka::explained;

/// A shipper that lost its transactional id to another leaves it alone for so long.
const FENCED_FOR: Duration = Duration::from_secs(10);

/// Returns the refusal of a call that failed.
pub(super) fn refused(doing: &str, error: &KafkaError) -> Refusal {
    let why = format!("{doing}: {}", explained(error));
    match (error.rdkafka_error_code(), error) {
        (Some(code), _) => of_code(code, why),
        (None, KafkaError::ClientCreation(_) | KafkaError::ClientConfig(..)) => Refusal::Final(why),
        (None, _) => again(why),
    }
}

/// Returns the refusal that an error code means.
pub(super) fn of_code(code: RDKafkaErrorCode, why: String) -> Refusal {
    match code {
        RDKafkaErrorCode::MessageSizeTooLarge => Refusal::TooLarge(why),
        RDKafkaErrorCode::Fenced
        | RDKafkaErrorCode::ProducerFenced
        | RDKafkaErrorCode::InvalidProducerEpoch => Refusal::Again {
            after: Some(FENCED_FOR),
            why: format!(
                "{why}; another shipper of the same --site ships to this topic, or this one stood still: only one may ship, so give each machine's a --site of its own"
            ),
        },
        RDKafkaErrorCode::TopicAuthorizationFailed
        | RDKafkaErrorCode::ClusterAuthorizationFailed
        | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
        | RDKafkaErrorCode::SaslAuthenticationFailed
        | RDKafkaErrorCode::Authentication
        | RDKafkaErrorCode::InvalidTopic
        | RDKafkaErrorCode::UnsupportedFeature
        | RDKafkaErrorCode::UnsupportedVersion
        | RDKafkaErrorCode::UnsupportedSASLMechanism => Refusal::Final(why),
        _ => again(why),
    }
}

/// Returns the refusal of something that may go better later.
pub(super) fn again(why: String) -> Refusal {
    Refusal::Again { after: None, why }
}
