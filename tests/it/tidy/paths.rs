//! Documents and comments name files and tests that exist.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::is_word;
use super::source::{FILES, SOURCES, read};

/// A word with one of these endings is the path of a file, or the end of one.
const ENDINGS: [&str; 5] = [".rs", ".py", ".js", ".md", ".slt"];

/// The folders of the repository: a word that begins with one of them and `/` is a path.
static FOLDERS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let folders = FILES.iter().filter_map(|path| path.split_once('/'));
    folders.map(|(folder, _)| folder).collect()
});
/// The top-level modules of the crates: a path in a comment may begin with one of them.
static MODULES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let product = SOURCES.iter().filter(|source| source.is_product);
    let modules = product.filter_map(|source| source.module().first().copied());
    modules.collect()
});

#[test]
fn every_path_that_a_document_names_exists() {
    let mut missing = Vec::new();
    for document in FILES.iter().filter(|path| is_document(path)) {
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in (1..).zip(read(document).lines()) {
            let links = links(line).map(|link| format!("{folder}/{link}"));
            let links = links.map(|link| link.trim_start_matches('/').to_owned());
            let broken = links.filter(|link| !FILES.contains(link));
            let gone = words(line).filter(|word| {
                let is_below = is_below(word, &FOLDERS);
                is_plain(word) && (is_below || is_source(word)) && !exists(word, is_below)
            });
            for name in broken.chain(gone.map(str::to_owned)) {
                missing.push(format!("{document}:{number}: {name}"));
            }
        }
    }
    let list = missing.join("\n");
    assert!(missing.is_empty(), "no such file or folder:\n{list}");
}

#[test]
fn every_path_that_a_comment_names_exists() {
    let mut missing = Vec::new();
    for source in SOURCES.iter() {
        for (line, comment, _) in source.comment_lines() {
            let gone = comment.split('`').skip(1).step_by(2).filter(|word| {
                let is_below = is_below(word, &FOLDERS) || is_below(word, &MODULES);
                is_plain(word) && (is_below || is_source(word)) && !exists(word, false)
            });
            missing.extend(gone.map(|name| format!("{}:{line}: {name}", source.path)));
        }
    }
    let list = missing.join("\n");
    assert!(missing.is_empty(), "no such file or folder:\n{list}");
}

#[test]
fn every_test_that_a_document_names_exists() {
    let mut missing = Vec::new();
    for (number, line) in (1..).zip(read("docs/TESTING.md").lines()) {
        for name in line.split('`').skip(1).step_by(2) {
            let name = name.trim_end_matches('…');
            let is_name = name.chars().all(|c| is_word(c) && !c.is_uppercase());
            let is_sentence = is_name && name.matches('_').count() > 2;
            let definition = format!("fn {name}");
            let mut sources = SOURCES.iter();
            if is_sentence && !sources.any(|source| source.text.contains(&definition)) {
                missing.push(format!("docs/TESTING.md:{number}: {name}"));
            }
        }
    }
    let list = missing.join("\n");
    assert!(missing.is_empty(), "no such test:\n{list}");
}

fn is_document(path: &str) -> bool {
    let is_own = !path.contains('/') || path.starts_with("docs/");
    is_own && path.ends_with(".md")
}

/// Returns the links of a line that lead to files of the repository, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|link| !link.contains("://") && !link.is_empty())
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c.is_whitespace() || "`()[],;|'\"".contains(c));
    words.map(|word| word.trim_end_matches(['.', ':']))
}

/// Checks whether a word can be a path: `tests/*.rs` and `fixtures/FORMAT` stand for several.
fn is_plain(word: &str) -> bool {
    let is_part = |part: &str| part.len() < 2 || part.chars().any(|c| !c.is_ascii_uppercase());
    let has_path_characters = word.chars().all(|c| is_word(c) || "/.-".contains(c));
    has_path_characters && !word.starts_with('/') && word.split('/').all(is_part)
}

fn is_below(word: &str, folders: &BTreeSet<&str>) -> bool {
    let first = word.split_once('/').map(|(first, _)| first);
    first.is_some_and(|first| folders.contains(first))
}

fn is_source(word: &str) -> bool {
    let mut endings = ENDINGS.iter();
    endings.any(|ending| word.len() > ending.len() && word.ends_with(ending))
}

/// Checks whether a file, a folder or a module has this path; if it need not be from the root, also
/// whether one has a path that ends so.
fn exists(word: &str, is_from_root: bool) -> bool {
    let word = word.trim_end_matches('/');
    let is_named = |path: &String| {
        let mut starts = path.match_indices(word).map(|(start, _)| start);
        starts.any(|start| {
            let is_start = start == 0 || !is_from_root && path[..start].ends_with('/');
            let rest = &path[start + word.len()..];
            is_start && (rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
        })
    };
    FILES.iter().any(is_named)
}
