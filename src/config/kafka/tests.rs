use super::*;

fn problems(text: &str) -> Vec<String> {
    let config: Config = toml::from_str(text).expect("a configuration");
    let mut problems = Vec::new();
    config.kafka_problems(&mut problems);
    problems
}

fn source(more: &str) -> String {
    format!("[kafka.web]\nbrokers = [\"k1:9092\"]\ntopics = [\"t\"]\nstream = \"web\"\n{more}")
}

#[cfg(feature = "kafka")]
#[test]
fn a_source_needs_brokers_topics_and_a_stream_of_good_form() {
    assert_eq!(problems(&source("")), Vec::<String>::new());
    for (wrong, right) in [
        ("brokers = []", "name at least one broker"),
        ("brokers = [\"k1\"]", "write HOST:PORT"),
        ("brokers = [\"k1:0\"]", "write HOST:PORT"),
        ("topics = []", "name at least one topic"),
        ("topics = [\"^web.*\"]", "patterns are not supported"),
        ("topics = [\"a\", \"b\", \"a\"]", "\"a\" is named twice"),
        ("group = \"\"", "an empty name"),
        ("stream = \"Web\"", "is not a name"),
        ("stream = \"_quarantine\"", "written by the store itself"),
        ("format = \"jsn\"", "is not a format"),
        ("bytes_max = 0", "0 would read nothing"),
    ] {
        let (key, _) = wrong.split_once(' ').unwrap();
        let lines = source("");
        let lines = lines.lines().filter(|line| !line.starts_with(key));
        let text = lines.collect::<Vec<_>>().join("\n") + "\n" + wrong;
        let found = problems(&text);
        assert_eq!(found.len(), 1, "{wrong}: {found:?}");
        assert!(
            found[0].starts_with(&format!("[kafka.web] {key}: ")),
            "{found:?}"
        );
        assert!(found[0].contains(right), "{wrong}: {found:?}");
    }
}

#[test]
fn a_start_is_a_word_or_a_time() {
    assert_eq!("earliest".parse(), Ok(Start::Earliest));
    assert_eq!("latest".parse(), Ok(Start::Latest));
    let time = Start::Time(1_000_000_000_123);
    assert_eq!("2001-09-09T03:46:40.123+02:00".parse(), Ok(time));
    assert!(
        "yesterday"
            .parse::<Start>()
            .unwrap_err()
            .contains("\"earliest\"")
    );
}

#[cfg(feature = "kafka")]
#[test]
fn options_may_be_dotted_quoted_or_elsewhere_and_secrets_only_elsewhere() {
    let text = source(
        "[kafka.web.options]\n\"security.protocol\" = \"SASL_SSL\"\nfetch.wait.max.ms = 4\n\
         sasl.username = { env = \"USER_OF_KAFKA\" }\n\"sasl.password\" = { file = \"/run/p\" }\n",
    );
    let config: Config = toml::from_str(&text).unwrap();
    let found: Vec<_> = config.kafka["web"].options.iter().collect();
    let value = |text: &str| Setting::Value(text.to_owned());
    let expected = [
        ("fetch.wait.max.ms", &value("4")),
        ("sasl.password", &Setting::File("/run/p".into())),
        ("sasl.username", &Setting::Variable("USER_OF_KAFKA".into())),
        ("security.protocol", &value("SASL_SSL")),
    ];
    assert_eq!(found, expected);
    assert_eq!(problems(&text), Vec::<String>::new());

    for option in [
        "sasl.password = \"geheim\"",
        "\"ssl.key.pem\" = \"geheim\"",
        "ssl.key.password = \"geheim\"",
        "\"sasl.oauthbearer.client.secret\" = \"geheim\"",
        "\"sasl.password\" = [\"geheim\"]",
    ] {
        let found = problems(&source(&format!("[kafka.web.options]\n{option}\n")));
        assert_eq!(found.len(), 1, "{option}");
        assert!(!found[0].contains("geheim"), "{found:?}");
    }
    let found = problems(&source(
        "options = { group.id = \"g\", check.crcs = false }",
    ));
    assert_eq!(found.len(), 2, "{found:?}");
}
