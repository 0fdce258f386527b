use super::fuzzing::mongo_query;
use crate::tests::replay::replay;

#[test]
fn queries_are_refused_or_answered_alike() {
    replay("mongo_query", mongo_query);
}
