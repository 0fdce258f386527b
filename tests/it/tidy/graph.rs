//! Imports between the top-level modules of a crate.

use std::collections::{BTreeMap, BTreeSet};

use super::is_word;
use super::source::{SOURCES, Source};

/// Each top-level module, and those that it names by `crate::` or `super::`.
type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the circles of a crate: sets of modules of which each reaches every other one.
pub(super) fn circles(root: &str) -> Vec<Vec<&'static str>> {
    let reached = closure(imports(root));
    let mut circles: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (module, targets) in &reached {
        let is_back = |other: &&&str| reached.get(*other).is_some_and(|t| t.contains(module));
        let circle: Vec<&str> = targets.iter().filter(is_back).copied().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// Adds to each module the modules that it reaches over others.
fn closure(mut imports: Imports<'_>) -> Imports<'_> {
    let modules: Vec<&str> = imports.keys().copied().collect();
    for via in &modules {
        let further = imports[via].clone();
        for targets in imports.values_mut().filter(|targets| targets.contains(via)) {
            targets.extend(&further);
        }
    }
    imports
}

fn imports(root: &str) -> Imports<'static> {
    let folder = root.rsplit_once('/').expect("a folder").0;
    let below = |source: &&Source| source.is_product && source.path.starts_with(folder);
    let files: Vec<&Source> = SOURCES.iter().filter(below).collect();
    let mut imports: Imports<'_> = BTreeMap::new();
    for file in &files {
        if let [module, ..] = file.module()[..] {
            imports.entry(module).or_default();
        }
    }
    let root = files.iter().find(|file| file.path == root);
    let exported = exports(&root.expect("the crate's root").code);
    for file in files {
        let path = file.module();
        let Some(module) = path.first() else {
            continue;
        };
        for name in names_of_root(&file.code, path.len()) {
            let target = exported.get(name).copied().unwrap_or(name);
            if target != *module && imports.contains_key(target) {
                imports.entry(module).or_default().insert(target);
            }
        }
    }
    imports
}

/// Returns the names that the crate's root exports, each with its top-level module.
fn exports(code: &str) -> BTreeMap<&str, &str> {
    let mut exported = BTreeMap::new();
    for statement in code.split(';') {
        if let Some((_, path)) = statement.split_once("use ") {
            let names: Vec<&str> = words(path).collect();
            if let [module, rest @ ..] = &names[..] {
                exported.extend(rest.iter().map(|name| (*name, *module)));
            }
        }
    }
    exported
}

/// Returns the names that follow `crate::`, and as many `super::` as lead to the crate's root.
fn names_of_root(code: &str, depth: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let parents = "super::".repeat(depth);
    for prefix in ["crate::", &parents] {
        for (start, _) in code.match_indices(prefix) {
            let rest = &code[start + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(group) => found.extend(group_heads(group)),
                None => found.extend(words(rest).next()),
            }
        }
    }
    found
}

/// Returns the first names of a group's members: `a` and `b` of `a::{c, d}, b::e}`.
fn group_heads(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut heads) = (0, 0, Vec::new());
    for (offset, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                heads.extend(words(&group[start..offset]).next());
                start = offset + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    heads
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}
