//! Requirements on the page as a whole; its pure modules are tested in `tests/pure.js`.

use std::collections::BTreeSet;
use std::process::Command;

use super::{CONTENT_SECURITY_POLICY, FILES, asset, paths};

const SVG_NAMESPACE: &str = "http://www.w3.org/2000/svg";

fn text(path: &str) -> &'static str {
    let body = asset(path).expect("the page names files that exist").body;
    std::str::from_utf8(body).expect("the page's files are UTF-8")
}

fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    paths()
        .filter(|path| path.ends_with(".js"))
        .map(|path| (path, text(path)))
}

/// Returns every quoted string of `source` that follows `before`.
fn quoted_after<'a>(source: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    source
        .split(before)
        .skip(1)
        .filter_map(|rest| rest.strip_prefix('"')?.split('"').next())
}

#[test]
fn no_script_reads_a_string_as_markup_or_as_code() {
    const FORBIDDEN: &[&str] = &[
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "createContextualFragment",
        "setHTML",
        "parseHTML",
        "srcdoc",
        "eval(",
        "Function(",
        "import(",
        "setTimeout(\"",
        "setInterval(\"",
        "javascript:",
    ];
    for (path, source) in scripts().chain([("/", text("/"))]) {
        for word in FORBIDDEN {
            assert!(!source.contains(word), "{path} uses {word}");
        }
    }
}

#[test]
fn the_markup_holds_no_inline_script_handler_or_style() {
    let page = text("/");
    for script in page.split("<script").skip(1) {
        let (tag, rest) = script.split_once('>').expect("a script tag ends");
        assert!(tag.contains("src=\"/"), "a script without a source: {tag}");
        assert!(
            rest.starts_with("</script>"),
            "a script with a body: {rest:.40}"
        );
    }
    assert!(!page.contains("<style"));
    for tag in page.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        for attribute in tag.split_whitespace().skip(1) {
            let name = attribute.split('=').next().unwrap_or_default();
            assert!(
                !(name.starts_with("on") && attribute.contains('=')),
                "a handler: {tag}"
            );
            assert_ne!(name, "style", "an inline style: {tag}");
        }
    }
    for (path, source) in scripts() {
        assert!(
            !source.contains("setAttribute(\"style\"") && !source.contains("style: \""),
            "{path} writes a style attribute, which the policy refuses"
        );
    }
}

#[test]
fn nothing_is_loaded_from_another_host() {
    for path in paths() {
        let source = text(path).replace(SVG_NAMESPACE, "");
        assert!(!source.contains("://"), "{path} names another host");
        assert!(!source.contains("url(//") && !source.contains("\"//"));
    }
    for word in ["'unsafe-inline'", "'unsafe-eval'", "*", "http"] {
        assert!(
            !CONTENT_SECURITY_POLICY.contains(word),
            "the policy allows {word}"
        );
    }
    for directive in [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(
            CONTENT_SECURITY_POLICY
                .split(';')
                .any(|one| one.trim() == directive),
            "the policy lacks {directive}"
        );
    }
}

#[test]
fn every_file_the_page_names_is_here_and_every_file_here_is_named() {
    let mut named = BTreeSet::from(["/".to_owned()]);
    let page = text("/");
    for before in ["src=", "href="] {
        named.extend(quoted_after(page, before).map(str::to_owned));
    }
    for (_, source) in scripts() {
        named.extend(quoted_after(source, " from ").map(|from| from.replacen('.', "", 1)));
    }
    let held: BTreeSet<String> = paths().map(str::to_owned).collect();
    assert_eq!(named, held);
    assert_eq!(held.len(), FILES.len(), "a path is listed twice");
}

#[test]
fn every_element_that_a_script_looks_for_is_in_the_page() {
    let page = text("/");
    let ids: BTreeSet<&str> = quoted_after(page, " id=").collect();
    for (path, source) in scripts() {
        for id in quoted_after(source, "byId(").chain(quoted_after(source, "new Panel(")) {
            assert!(
                ids.contains(id),
                "{path} looks for #{id}, which is not there"
            );
        }
    }
}

#[test]
fn only_one_function_turns_values_into_sql_literals() {
    for (path, source) in scripts().filter(|(path, _)| *path != "/sql.js") {
        assert!(
            !source.contains("'${"),
            "{path} quotes a value by hand; sql.js has text() for that"
        );
    }
    let literals = text("/sql.js").matches("'${").count();
    assert_eq!(literals, 1, "sql.js has one place that quotes");
}

#[test]
fn links_to_the_outside_give_the_other_site_nothing() {
    let made: usize = scripts()
        .map(|(_, source)| source.matches("target: \"_blank\"").count())
        .sum();
    let safe: usize = scripts()
        .map(|(_, source)| source.matches("rel: \"noopener noreferrer\"").count())
        .sum();
    assert_eq!((made, safe), (1, 1));
    assert!(text("/").contains("<meta name=\"referrer\" content=\"no-referrer\">"));
}

#[test]
fn paths_outside_the_page_answer_nothing() {
    for path in [
        "",
        "page.js",
        "/page.js/",
        "/../lib.rs",
        "/tests/pure.js",
        "/api/v1/sql",
    ] {
        assert_eq!(asset(path), None, "{path}");
    }
    let page = asset("/").expect("the page itself");
    assert!(page.content_type.starts_with("text/html"));
    assert!(page.body.starts_with(b"<!doctype html>"));
}

#[test]
fn the_page_stays_small() {
    let bytes: usize = FILES.iter().map(|(_, asset)| asset.body.len()).sum();
    assert!(bytes < 160_000, "the page has grown to {bytes} bytes");
}

#[test]
fn the_pure_modules_pass_their_own_tests() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, body: &[u8]| {
        std::fs::write(folder.path().join(name), body).expect("a file in the temporary folder");
    };
    for (path, asset) in FILES.iter().filter(|(path, _)| path.ends_with(".js")) {
        write(path.trim_start_matches('/'), asset.body);
    }
    write("pure.js", include_bytes!("tests/pure.js"));
    // Node treats a file named .js as a module only where its folder declares so.
    write("package.json", br#"{"type":"module"}"#);
    let Ok(output) = Command::new("node")
        .arg("pure.js")
        .current_dir(folder.path())
        .output()
    else {
        eprintln!("skipped: there is no node to run the page's modules");
        return;
    };
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
