use super::*;

fn found(method: &str, path: &str) -> Found {
    find(&method.parse().expect("a method"), path)
}

fn of(method: &str, path: &str) -> &'static Route {
    match found(method, path) {
        Found::Route(route) => route,
        other => panic!("{method} {path}: {other:?}"),
    }
}

#[test]
fn a_path_leads_to_its_route_whatever_its_names_are() {
    assert_eq!(
        of("POST", "/api/v1/ingest/web").path,
        "/api/v1/ingest/{stream}"
    );
    assert_eq!(of("HEAD", "/health").path, "/health");
    let index = "/api/v1/indexes/{stream}/{field}";
    assert_eq!(of("DELETE", "/api/v1/indexes/web/a%2Fb").path, index);
    for nothing in [
        "/api/v1/ingest",
        "/api/v1/ingest/",
        "/api/v1/ingest/a/b",
        "/api/v1/sql/",
        "/api/v1//sql",
        "/nowhere",
        "",
    ] {
        assert_eq!(found("POST", nothing), Found::Nothing, "{nothing}");
    }
}

#[test]
fn a_known_path_names_its_methods() {
    let methods = |all: &str| Found::OtherMethods(all.to_owned());
    assert_eq!(found("GET", "/api/v1/sql"), methods("POST"));
    assert_eq!(
        found("PUT", "/api/v1/partitions"),
        methods("GET, HEAD, DELETE")
    );
    assert_eq!(found("GET", "/api/v1/ingest/web"), methods("POST"));
    assert_eq!(found("HEAD", "/api/v1/sql"), methods("POST"));
}

#[test]
fn no_two_routes_are_the_same() {
    for (i, route) in ROUTES.iter().enumerate() {
        assert!(!ROUTES[..i].contains(route), "{route:?}");
        assert_eq!(of(route.method, route.path), route);
    }
}

#[test]
fn an_unknown_parameter_is_named_with_the_nearest() {
    let drop = of("DELETE", "/api/v1/partitions");
    assert_eq!(drop.check("stream=a&date=2024&dry_run=true"), Ok(()));
    assert_eq!(drop.check(""), Ok(()));
    for (query, said) in [
        (
            "dryrun=true",
            "unknown parameter \"dryrun\"; did you mean dry_run?",
        ),
        (
            "strem=web",
            "unknown parameter \"strem\"; did you mean stream?",
        ),
        (
            "stream=a&DATE=2024",
            "unknown parameter \"DATE\"; did you mean date?",
        ),
        ("colour=blue", "unknown parameter \"colour\""),
        (
            "dry%5Frun=true&dry_run=false",
            "the parameter dry_run is given twice",
        ),
        ("stream=a&&stream=b", "the parameter stream is given twice"),
        ("=1", "unknown parameter \"\""),
        ("stream", ""),
        (
            "stream=%zz",
            "\"stream=%zz\" is not percent-encoded UTF-8; % is written %25",
        ),
        (
            "stream=%FF",
            "\"stream=%FF\" is not percent-encoded UTF-8; % is written %25",
        ),
        (
            "stream=100%",
            "\"stream=100%\" is not percent-encoded UTF-8; % is written %25",
        ),
        (
            "stream=a%2",
            "\"stream=a%2\" is not percent-encoded UTF-8; % is written %25",
        ),
    ] {
        let message = drop.check(query).err().map(|wrong| wrong.message);
        assert_eq!(message.unwrap_or_default(), said, "{query}");
    }
    let hint = drop.check("x=1").expect_err("unknown").hint;
    assert_eq!(
        hint,
        "DELETE /api/v1/partitions takes stream, date, dry_run"
    );
    let hint = of("POST", "/api/v1/sql")
        .check("format=csv")
        .expect_err("unknown");
    assert!(hint.hint.contains("Accept"), "{}", hint.hint);
}

#[test]
fn the_table_and_the_router_have_the_same_routes() {
    // The router cannot list its routes, but its source can be parsed.
    let mut routed = Vec::new();
    for (below, source) in [
        ("", include_str!("../../server.rs")),
        ("", include_str!("../cluster.rs")),
        ("/prometheus/api/v1", include_str!("../prometheus.rs")),
        ("/loki/api/v1", include_str!("../loki.rs")),
        ("", include_str!("../shippers.rs")),
        ("", include_str!("../shippers/elastic.rs")),
        ("/elasticsearch", include_str!("../shippers/elastic.rs")),
        ("", include_str!("../shippers/hec.rs")),
        ("", include_str!("../shippers/journald.rs")),
        ("", include_str!("../shippers/loki.rs")),
        ("", include_str!("../shippers/otlp.rs")),
    ] {
        let (_, router) = source.split_once("Router::new()").expect("the router");
        let ends = [".fallback(", "Router::new().nest(", "\n}"];
        let end = ends.iter().find_map(|end| router.find(end));
        let router = &router[..end.expect("its end")];
        for route in router.split(".route(").skip(1) {
            let path = route.split('"').nth(1).expect("a path");
            let path = format!("{below}{path}");
            for (call, method) in [
                ("get(", "GET"),
                ("post(", "POST"),
                ("put(", "PUT"),
                ("delete(", "DELETE"),
            ] {
                let called = route.match_indices(call).any(|(at, _)| {
                    !route[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
                });
                routed.extend(called.then(|| (method, path.clone())));
            }
        }
    }
    let known = all().map(|r| (r.method, r.path.to_owned()));
    let mut known: Vec<_> = known.collect();
    routed.sort_unstable();
    known.sort_unstable();
    assert_eq!(routed, known);
}

#[test]
fn every_route_needs_the_right_of_the_written_table() {
    let written = include_str!("../../../tests/fixtures/rights.txt");
    let lines = written.lines().filter(|line| !line.starts_with('#'));
    let mut written: Vec<String> = lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let mut known: Vec<String> = all()
        .map(|route| {
            let role = match route.needs.action {
                Action::Public => "public",
                Action::Ingest => "ingest",
                Action::Read => "read",
                Action::TakeParts => "peer",
                Action::Maintain | Action::Administer => "admin",
            };
            let target = match route.needs.target {
                TargetOf::Path => "path",
                TargetOf::Parameter => "parameter",
                TargetOf::Visible => "visible",
                TargetOf::Store => "store",
            };
            format!("{} {} {role} {target}", route.method, route.path)
        })
        .collect();
    written.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, written);
}

#[test]
fn the_target_of_a_request_is_the_stream_that_its_handler_reads() {
    for (method, path, query, expected) in [
        ("POST", "/api/v1/ingest/web", "", Target::Stream("web")),
        ("POST", "/api/v1/ingest/%77eb", "", Target::Stream("web")),
        ("POST", "/api/v1/ingest/%FF", "", Target::Stream("")),
        (
            "GET",
            "/api/v1/streams/web/schema",
            "stream=db",
            Target::Stream("web"),
        ),
        ("GET", "/api/v1/tail", "stream=web", Target::Stream("web")),
        (
            "GET",
            "/api/v1/tail",
            "last=1&%73tream=w%65b",
            Target::Stream("web"),
        ),
        ("GET", "/api/v1/tail", "", Target::Stream("")),
        ("GET", "/api/v1/tail", "stream=%FF", Target::Stream("")),
        ("POST", "/api/v1/sql", "", Target::Visible),
        ("POST", "/api/v1/backup", "", Target::Store),
    ] {
        let mut held = String::new();
        assert_eq!(
            of(method, path).target(path, query, &mut held),
            expected,
            "{path}?{query}"
        );
    }
}
