use super::principal::Scope;
use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn access() -> (tempfile::TempDir, Access) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), storage::Options::default()).expect("a store");
    let access = Access::of(&Arc::new(store)).expect("read");
    (dir, access)
}

fn grant(role: Role, streams: &[&str]) -> Grant {
    let streams: Vec<String> = streams.iter().map(|s| (*s).to_owned()).collect();
    Grant {
        role,
        streams: streams.try_into().expect("patterns"),
    }
}

fn add(access: &Access, name: &str, role: Role, password: &str) {
    let verifier = Verifier::of(&SecretString::from(password));
    access
        .change(&Principal::open(), None, |a| {
            a.add_user(name, grant(role, &[]), verifier)
        })
        .expect("added");
}

fn token(access: &Access, name: &str, role: Role, streams: &[&str]) -> Token {
    let Grant { role, streams } = grant(role, streams);
    let request = TokenRequest {
        role,
        streams,
        expires_in_s: None,
    };
    access
        .change(&Principal::open(), None, |a| a.create_token(name, &request))
        .expect("created")
}

fn password(user: &str, password: &str) -> Option<Credentials> {
    Some(Credentials::Password {
        user: user.to_owned(),
        password: SecretString::from(password),
    })
}

fn bearer(token: &Token) -> Option<Credentials> {
    Some(Credentials::Token(SecretString::from(token.reveal())))
}

#[tokio::test]
async fn a_store_asks_from_its_first_account_on() {
    let (_dir, access) = access();
    let open = access.admit(None, HERE).await.expect("open");
    assert!(open.may(Action::Administer, Target::Store));
    add(&access, "ann", Role::Admin, "secret");
    assert_eq!(access.admit(None, HERE).await, Err(Refused::Missing));
    let ann = access
        .admit(password("ann", "secret"), HERE)
        .await
        .expect("right");
    assert_eq!((ann.name(), ann.role()), ("user ann", Role::Admin));
    for wrong in [
        password("ann", "Secret"),
        password("bob", "secret"),
        password("", ""),
    ] {
        assert_eq!(access.admit(wrong, HERE).await, Err(Refused::Wrong));
    }
    let again = read(&access.store).expect("read again");
    assert!(again.users.contains_key("ann"));
    let failed: u64 = access
        .audit()
        .infos()
        .iter()
        .filter(|e| e.event == "login failed")
        .map(|e| e.count)
        .sum();
    assert_eq!(failed, 3);
}

#[tokio::test]
async fn a_change_is_in_effect_at_once() {
    let (_dir, access) = access();
    let admin = token(&access, "admin", Role::Admin, &[]);
    let shipper = token(&access, "shipper", Role::Ingest, &[]);
    add(&access, "ann", Role::Read, "one");
    let ann = access
        .admit(password("ann", "one"), HERE)
        .await
        .expect("right");
    let session = access.begin_session(&ann).expect("a session");
    let by_session = || Some(Credentials::Session(session.clone()));
    assert_eq!(access.admit(by_session(), HERE).await.as_ref(), Ok(&ann));

    let verifier = Verifier::of(&SecretString::from("two"));
    access
        .change(&ann, Some(HERE), |a| a.change_password("ann", verifier))
        .expect("changed");
    assert_eq!(access.admit(by_session(), HERE).await, Err(Refused::Wrong));
    assert_eq!(
        access.admit(password("ann", "one"), HERE).await,
        Err(Refused::Wrong)
    );
    assert!(access.admit(password("ann", "two"), HERE).await.is_ok());

    assert!(access.admit(bearer(&shipper), HERE).await.is_ok());
    access
        .change(&ann, None, |a| a.revoke_token("shipper"))
        .expect("revoked");
    assert_eq!(
        access.admit(bearer(&shipper), HERE).await,
        Err(Refused::Wrong)
    );
    let other = token(&access, "shipper", Role::Ingest, &[]);
    assert_eq!(
        access.admit(bearer(&shipper), HERE).await,
        Err(Refused::Wrong)
    );
    // A token in the place of a password, whatever the name.
    assert!(
        access
            .admit(password("anyone", other.reveal()), HERE)
            .await
            .is_ok()
    );
    assert!(access.admit(bearer(&admin), HERE).await.is_ok());
}

#[tokio::test]
async fn an_expired_token_is_refused_and_does_not_open_the_store() {
    let (_dir, access) = access();
    let request = TokenRequest {
        role: Role::Admin,
        streams: Scope::default(),
        expires_in_s: Some(0),
    };
    let token = access
        .change(&Principal::open(), None, |a| {
            a.create_token("short", &request)
        })
        .expect("created");
    assert_eq!(
        access.admit(bearer(&token), HERE).await,
        Err(Refused::Wrong)
    );
    assert_eq!(access.admit(None, HERE).await, Err(Refused::Missing));
}

#[tokio::test]
async fn failed_logins_are_slowed_down_and_known_ones_are_not() {
    let (_dir, access) = access();
    add(&access, "ann", Role::Read, "right");
    assert!(access.admit(password("ann", "right"), HERE).await.is_ok());
    let mut outcomes = Vec::new();
    for attempt in 0..8 {
        outcomes.push(
            access
                .admit(password("ann", &attempt.to_string()), HERE)
                .await
                .err(),
        );
    }
    assert_eq!(outcomes[..4], [Some(Refused::Wrong); 4]);
    assert!(
        matches!(outcomes[7], Some(Refused::Slow(_))),
        "{outcomes:?}"
    );
    assert!(access.admit(password("ann", "right"), HERE).await.is_ok());
    // Another address has a budget of its own.
    let elsewhere = "192.0.2.7".parse().expect("an address");
    assert_eq!(
        access.admit(password("ann", "8"), elsewhere).await,
        Err(Refused::Wrong)
    );
}

/// Every role × action × target, from the table of the specification.
#[test]
fn a_principal_may_what_its_role_and_streams_allow() {
    use Action::{Administer, Ingest, Public, Read};
    let mut accounts = Accounts::default();
    let mut principal = |role: Role, streams: &[&str]| {
        let name = format!("{}-{}", role.as_str(), streams.len());
        let Grant { role, streams } = grant(role, streams);
        let request = TokenRequest {
            role,
            streams,
            expires_in_s: None,
        };
        accounts.create_token(&name, &request).expect("created");
        let account = accounts.tokens[&name].account(&name);
        accounts.principal(&account).expect("present")
    };
    let all = [
        (principal(Role::Ingest, &[]), [true, true, false, false]),
        (principal(Role::Read, &[]), [true, false, true, false]),
        (principal(Role::Admin, &[]), [true, true, true, true]),
    ];
    for (who, expected) in all {
        for (action, expected) in [Public, Ingest, Read, Administer].into_iter().zip(expected) {
            for target in [
                Target::Stream("web"),
                Target::Stream("db"),
                Target::Visible,
                Target::Store,
            ] {
                assert_eq!(
                    who.may(action, target),
                    expected,
                    "{who:?} {action:?} {target:?}"
                );
            }
        }
    }
    let web = principal(Role::Read, &["web_*", "w?b"]);
    for (stream, expected) in [
        ("web_eu", true),
        ("web", true),
        ("web_", true),
        ("we", false),
        ("db", false),
        (storage::QUARANTINE, false),
        ("", false),
    ] {
        assert_eq!(web.may(Read, Target::Stream(stream)), expected, "{stream}");
        assert!(!web.may(Ingest, Target::Stream(stream)), "{stream}");
    }
    assert!(!web.may(Read, Target::Store) && web.may(Read, Target::Visible));
    let everything = principal(Role::Read, &["*", "a", "b"]);
    assert!(!everything.may(Read, Target::Stream(storage::QUARANTINE)));
}

#[test]
fn bad_names_and_limited_admins_are_refused() {
    let mut accounts = Accounts::default();
    let verifier = Verifier::of(&SecretString::from("x"));
    for name in ["", "a b", "a/b", "../x", "ü", "a\n", &"x".repeat(64)] {
        let added = accounts.add_user(name, grant(Role::Read, &[]), verifier.clone());
        assert!(added.is_err(), "{name:?}");
    }
    assert!(
        accounts
            .add_user("ann", grant(Role::Admin, &["web"]), verifier.clone())
            .is_err()
    );
    accounts
        .add_user("ann", grant(Role::Read, &["web"]), verifier.clone())
        .expect("valid");
    assert!(
        accounts
            .add_user("ann", grant(Role::Read, &[]), verifier.clone())
            .is_err()
    );
    assert!(accounts.remove_user("bob").is_err() && accounts.revoke_token("ann").is_err());
    for pattern in ["", "Web", "a/b", "[a]", "web.*"] {
        assert!(
            Scope::try_from(vec![pattern.to_owned()]).is_err(),
            "{pattern:?}"
        );
    }
    for (pattern, is_taken) in [("9*", true), ("9", false), (&*"n".repeat(64), false)] {
        let verifier = verifier.clone();
        let added = accounts.add_user("eve", grant(Role::Read, &[pattern]), verifier);
        assert_eq!(added.is_ok(), is_taken, "{pattern}");
        let _gone = accounts.remove_user("eve");
    }
    let read = Accounts::read(&accounts.write()).expect("as written");
    assert_eq!(read.users["ann"].grant, grant(Role::Read, &["web"]));
    assert!(Accounts::read("{\"users\":{},\"tokens\":{},\"groups\":{}}").is_err());
}

#[tokio::test]
async fn a_flood_of_logins_pushes_no_change_out_of_the_audit() {
    let (_dir, access) = access();
    add(&access, "ann", Role::Read, "right");
    for attempt in 0..200 {
        let given = password(&format!("user{attempt}"), "wrong");
        // An address has 60 checks a minute: the rest are counted together.
        assert!(access.admit(given, HERE).await.is_err());
    }
    let entries = access.audit().infos();
    assert!(
        entries
            .iter()
            .any(|e| e.event == "changed" && e.detail.contains("ann"))
    );
    assert!(entries.len() < 100, "{}", entries.len());
    let failed: u64 = entries
        .iter()
        .filter(|e| e.event == "login failed")
        .map(|e| e.count)
        .sum();
    assert_eq!(failed, 200);
}

#[test]
fn sessions_are_bounded_and_the_idlest_one_ends() {
    let (_dir, access) = access();
    add(&access, "ann", Role::Read, "secret");
    let entry = access.accounts();
    let account = entry.users["ann"].account("ann");
    let first = access.sessions.begin(account.clone());
    let second = access.sessions.begin(account.clone());
    // The limit is 10,000.
    for _ in 2..10_000 {
        access.sessions.begin(account.clone());
    }
    assert!(access.sessions.account(&first).is_some());
    access.sessions.begin(account);
    assert!(access.sessions.account(&first).is_some(), "it was used");
    assert!(access.sessions.account(&second).is_none(), "the idlest");
}

#[tokio::test]
async fn the_salt_of_an_unknown_user_outlives_changes_of_others_as_that_of_a_known_one_does() {
    let (_dir, access) = access();
    add(&access, "ann", Role::Read, "secret");
    let salt = async |access: &Access, user: &str| {
        let begun = access.begin_scram(user, "n,,n=,r=nonce", HERE).await;
        let (_, answer) = begun.expect("begun");
        let salt = answer.split(',').find(|field| field.starts_with("s="));
        salt.expect("a salt").to_owned()
    };
    let before = (salt(&access, "ann").await, salt(&access, "bob").await);
    assert_ne!(before.0, before.1);
    add(&access, "eve", Role::Read, "other");
    let again = Access::of(&access.store).expect("read again");
    for access in [&access, &again] {
        let after = (salt(access, "ann").await, salt(access, "bob").await);
        assert_eq!(after, before);
    }
}
