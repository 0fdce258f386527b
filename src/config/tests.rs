use std::os::unix::fs::PermissionsExt;

use super::*;

fn parse(text: &str) -> Result<Config> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("logmill.toml");
    std::fs::write(&path, text).expect("written");
    Config::load(Some(&path))
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let error = parse("[storage]\nlagg = \"5s\"").expect_err("refused");
    assert_eq!(error.code, crate::failure::CONFIG);
    assert!(error.to_string().contains("did you mean `lag`?"), "{error}");
}

#[test]
fn names_that_clusters_will_have_are_kept_for_them() {
    for text in [
        "[cluster]\nname = \"a\"",
        "[cluster]\npeers = []\nreplicas = 3",
    ] {
        let error = parse(text).expect_err("refused");
        assert!(
            error
                .to_string()
                .contains("is reserved for stores of several nodes"),
            "{error}"
        );
    }
}

#[test]
fn peers_are_read_and_wrong_ones_are_named_with_their_line() {
    let config = parse("[cluster]\npeers = [\"http://a:7070\"]\ntoken_file = \"t\"");
    assert_eq!(config.expect("reads").cluster.peers, ["http://a:7070"]);
    for (text, said) in [
        (
            "[cluster]\npeers = [\"a:7070\"]",
            ":2: [cluster] peers: \"a:7070\"",
        ),
        ("[cluster]\npeer = []", "did you mean `peers`?"),
        (
            "[cluster]\n\npeers = \"http://a\"",
            ":3: peers of [cluster]",
        ),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn sizes_durations_streams_and_rollups_are_read() {
    let config = parse(
        r#"
        [storage]
        lag = "5s"
        memtable_bytes_max = "64MiB"
        [stream.web]
        format = "combined"
        order_by = ["host", "time"]
        write_concern = { w = "majority" }
        [rollup.by_user]
        stream = "web"
        by = ["user"]
        timezone = "Europe/Berlin"
        measures = { hits = "count" }
        "#,
    )
    .expect("reads");
    assert_eq!(config.store().lag_us, 5_000_000);
    assert_eq!(config.store().memtable_bytes_max, 64 << 20);
    assert_eq!(
        config.concern("web").expect("a concern"),
        storage::WriteConcern {
            w: storage::Copies::Majority,
            j: false
        }
    );
    assert_eq!(config.format("web"), ingest::Format::Combined);
    assert!(
        config
            .origins
            .iter()
            .any(|o| o.key == "storage.lag" && o.origin.ends_with("logmill.toml"))
    );
}

#[test]
fn all_problems_are_named_at_once() {
    let error =
        parse("[stream.Bad]\n[stream.web]\nformat = \"combind\"\nwrite_concern = { w = 2 }")
            .expect_err("refused");
    for part in [
        "logmill.toml:1: [stream.Bad]",
        "logmill.toml:3: [stream.web] format: ",
        "combind",
        "logmill.toml:4: [stream.web] write_concern: ",
        "w=2 needs 2 nodes",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn the_retention_of_a_stream_says_something() {
    let config = parse(
        "[stream.web]\nretention = { age = \"90d\", bytes = \"200GB\" }\n[stream._quarantine]\nretention = { age = \"7d\" }",
    );
    let store = config.expect("reads").store();
    let retention = |name| store.streams[name].retention;
    let day_us = 86_400_000_000;
    assert_eq!(
        retention("web"),
        storage::Retention {
            age_us: Some(90 * day_us),
            bytes: Some(200_000_000_000),
        }
    );
    assert_eq!(retention("_quarantine").age_us, Some(7 * day_us));
    for (wrong, said) in [
        ("{}", "write age, bytes or both"),
        ("{ age = \"0s\" }", "0 would keep nothing"),
        ("{ bytes = 0 }", "0 would keep nothing"),
        ("{ age = \"90d\", byte = 5 }", "unknown field `byte`"),
        (
            "\"90d\"",
            "logmill.toml:2: retention of [stream.web] is a table: retention = { age = \"90d\"",
        ),
    ] {
        let error = parse(&format!("[stream.web]\nretention = {wrong}")).expect_err(wrong);
        assert!(error.to_string().contains(said), "{wrong}: {error}");
    }
}

#[test]
fn the_environment_goes_over_the_file() {
    let mut table: toml::Table = "[storage]\nlag = \"5s\"".parse().expect("toml");
    let mut origins = Vec::new();
    let variables = [
        ("LOGMILL_STORAGE__LAG", "7s"),
        ("LOGMILL_SERVER__CONNECTIONS_MAX", "3"),
        ("LOGMILL_TEST_DATA", "not ours"),
    ];
    let variables = variables.map(|(k, v)| (k.to_owned(), v.to_owned()));
    overlay_environment(&mut table, &mut origins, variables.into_iter()).expect("overlaid");
    let config: Config = table.try_into().expect("fits");
    assert_eq!(config.storage.lag.micros(), 7_000_000);
    assert_eq!(config.server.connections_max, 3);
}

#[test]
fn a_server_that_nobody_could_reach_is_refused() {
    let wrong = "[server]\nconnections_max = 0\nhosts = [\"https://logs.example.org\"]";
    let error = parse(wrong).expect_err("refused").to_string();
    for part in ["[server] connections_max = 0", "[server] hosts: \"https://"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_error_names_its_line_and_what_was_meant() {
    for (text, said) in [
        (
            "[storage]\n\nlag = 5\n",
            "logmill.toml:3: lag of [storage]: ",
        ),
        ("[storage\nlag = 5\n", "logmill.toml:1: "),
        (
            "[stream.web]\nindexes = [\"path\"]",
            "logmill.toml:2: indexes of [stream.web] is a list of lists",
        ),
        (
            "[stream.web]\norder_by = \"time\"",
            ":2: order_by of [stream.web] is a list of columns: order_by = [",
        ),
        (
            "[stream.web]\n# a week\npartition = \"week\"",
            ":3: partition of [stream.web] is a width",
        ),
        (
            "[stream.web]\nanonymise = \"hash\"",
            ":2: anonymise of [stream.web] is a table, with quotes around dotted names: anonymise = {",
        ),
        (
            "[stream.web]\nanonymise = { client.ip = \"hash\" }",
            ":2: anonymise of [stream.web] is a table, with quotes around dotted names: anonymise = {",
        ),
        (
            "[stream.web]\nlaggg = 1",
            "logmill.toml:2: unknown field `laggg`",
        ),
        (
            "[rollup.r]\nstream = \"web\"\nlevels = \"day\"\n",
            ":3: levels of [rollup.r] is a list: levels = [",
        ),
        (
            "[rollup.r]\nstream = \"web\"\nby = [\"a\"]\nretention = \"7d\"\n",
            ":4: retention of [rollup.r] is a table of levels",
        ),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.code, crate::failure::CONFIG);
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
}

#[test]
fn every_setting_is_shown_as_it_can_be_written() {
    let defaults = Config::default();
    let shown = defaults.settings();
    for key in [
        "storage.tends",
        "storage.scrub_share",
        "storage.scrub_interval",
        "query.rollup_rewrite",
    ] {
        assert!(shown.iter().any(|(known, _)| known == key), "{key}");
    }
    // Each setting is a known key, and no key of a section is missing.
    for (key, value) in &shown {
        let (section, name) = key.split_once('.').expect("a section and a key");
        let written = |text: &str| format!("[{section}]\n{name} = {text}\n");
        let config = toml::from_str::<Config>(&written(value))
            .or_else(|_| toml::from_str(&written(&format!("{value:?}"))));
        let config = config.unwrap_or_else(|e| panic!("{key} = {value}: {e}"));
        assert_eq!(config.settings(), shown, "{key} = {value}");
    }
    for section in ["server", "storage", "ingest", "query", "cluster"] {
        let unknown = format!("[{section}]\nno_such_key = 1\n");
        let error = toml::from_str::<Config>(&unknown).expect_err("unknown");
        let error = error.to_string();
        let known = error.split('`').skip(3).step_by(2);
        for key in known {
            let key = format!("{section}.{key}");
            assert!(
                shown.iter().any(|(known, _)| *known == key),
                "{key} is not shown: {error}"
            );
        }
    }
}

#[test]
fn all_problems_of_anonymise_are_named_with_their_lines() {
    let error = parse(
        r#"[ingest]
hash_key_file = "no/such/key"
[stream.web]
format = "combined"
anonymise = { host = "truncated", _id = "truncate" }
[stream.api]
format = "combined"
[stream.api.anonymise]
request = "truncate"
[stream.text]
format = "plain"
raw_line = true
anonymise = { client = "hash" }
"#,
    );
    let error = error.expect_err("refused").to_string();
    for part in [
        "logmill.toml:2: [ingest] hash_key_file = \"no/such/key\": ",
        "logmill.toml:5: [stream.web] anonymise: host: write \"truncate\" or \"hash\"",
        "logmill.toml:5: [stream.web] anonymise: _id: this field cannot be changed",
        "logmill.toml:8: [stream.api] anonymise: \"request\" is no text field",
        "logmill.toml:12: [stream.text] raw_line would keep",
        "logmill.toml:13: [stream.text] anonymise: the field \"line\" of this format",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = parse("[stream.web]\nanonymise = { user = \"hash\" }").expect_err("no key");
    let said = "logmill.toml:2: [stream.web] anonymise: user: a hash needs a key";
    assert!(error.to_string().contains(said), "{error}");
    parse(
        "[stream.web]\nformat = \"plain\"\ndrop = [\"line\"]\nanonymise = { site = \"truncate\" }",
    )
    .expect("a line that is not stored hides its fields");
}

#[test]
fn the_key_of_hashes_is_read_where_a_stream_hashes_and_is_for_its_owner() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("key");
    let config = |method: &str| {
        format!(
            "[ingest]\nhash_key_file = {file:?}\n[stream.web]\nanonymise = {{ host = \"{method}\" }}"
        )
    };
    parse(&config("truncate")).expect("nothing reads the missing key");
    std::fs::write(&file, [7; 31]).expect("written");
    let error = parse(&config("hash")).expect_err("too short").to_string();
    assert!(error.contains("write 32 random bytes or more"), "{error}");
    std::fs::write(&file, [7; 32]).expect("written");
    let warnings = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("changed");
        parse(&config("hash"))
            .expect("reads")
            .deviations(&BTreeMap::new())
    };
    assert_eq!(warnings(0o600), Vec::<String>::new());
    let told = warnings(0o640).concat();
    assert!(
        told.contains("(mode 640)") && told.contains("chmod 600"),
        "{told}"
    );
    // The superuser may read every file.
    let told = warnings(0o000).concat();
    let is_denied = std::fs::read(&file).is_err();
    let served = parse(&config("hash")).expect("reads").check_anonymisers();
    assert_eq!(served.is_err(), is_denied, "a server does not start");
    assert_eq!(
        told.contains("this user may not read it"),
        is_denied,
        "{told}"
    );
}
