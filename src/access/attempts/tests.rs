use std::net::Ipv4Addr;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

async fn fail(attempts: &Attempts, user: &str) -> Result<(), Refused> {
    attempts.begin(user, HERE).await.map(drop)
}

#[tokio::test]
async fn a_user_that_failed_five_times_waits_and_others_do_not() {
    let attempts = Attempts::default();
    for _ in 0..PER_USER {
        assert_eq!(fail(&attempts, "alice").await, Ok(()));
    }
    let refused = fail(&attempts, "alice").await;
    assert!(matches!(refused, Err(Refused::Slow(wait)) if wait <= WINDOW));
    assert_eq!(fail(&attempts, "bob").await, Ok(()));
    let elsewhere = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    assert!(attempts.begin("alice", elsewhere).await.is_ok());
}

#[tokio::test]
async fn an_address_that_guesses_at_many_users_waits() {
    let attempts = Attempts::default();
    for user in 0..PER_ADDRESS {
        assert_eq!(fail(&attempts, &user.to_string()).await, Ok(()));
    }
    assert!(fail(&attempts, "another").await.is_err());
}

#[tokio::test]
async fn attempts_that_succeed_cost_nothing_and_wait_for_each_other() {
    let attempts = Attempts::default();
    for _ in 0..1000 {
        attempts
            .begin("alice", HERE)
            .await
            .expect("a place")
            .succeeded();
    }
    let mut first = Vec::new();
    for _ in 0..PER_USER {
        first.push(attempts.begin("alice", HERE).await.expect("a place"));
    }
    let (waiting, ending) = tokio::join!(attempts.begin("alice", HERE), async {
        first.pop().expect("one").succeeded();
    });
    let () = ending;
    waiting.expect("a place after the other").succeeded();
    drop(first);
    // Four have failed now, so that one more may.
    assert_eq!(fail(&attempts, "alice").await, Ok(()));
    assert!(fail(&attempts, "alice").await.is_err());
}
