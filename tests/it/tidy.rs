//! The house rules that a test can keep. Each number is a ratchet: it has today's value and only
//! falls. A change that would raise one has to be made differently. A change that lowers one also
//! lowers the constant, so that no later change raises it again unnoticed.

mod graph;
mod paths;
mod source;

use std::collections::BTreeMap;

use graph::circles;
use source::{CRATES, SOURCES, Source, item_end};

/// Lines of the longest file of product code.
const FILE_LINES: usize = 538;
/// Files of product code with more than [`FILE_GOAL`] lines.
const LONG_FILES: usize = 12;
/// Lines of the longest function of product code.
const FUNCTION_LINES: usize = 105;
/// Functions of product code with more than [`FUNCTION_GOAL`] lines.
const LONG_FUNCTIONS: usize = 8;
/// Top-level modules that import each other in a loop, by crate in the order of [`CRATES`].
const MODULES_IN_CIRCLES: [usize; CRATES.len()] = [8, 0, 0, 5, 0, 0];
/// Comment lines wider than [`COMMENT_WIDTH`].
const WIDE_COMMENTS: usize = 0;
/// Comment lines that begin with one of [`POOR_BEGINNINGS`].
const POOR_COMMENTS: usize = 0;
/// Names of types that product code defines more than twice.
const REPEATED_TYPES: usize = 2;

/// Lines that a file should not exceed.
const FILE_GOAL: usize = 400;
/// Lines that a function should not exceed.
const FUNCTION_GOAL: usize = 70;
/// Columns of a comment line.
const COMMENT_WIDTH: usize = 100;
/// A sentence that begins with one of these words has no subject yet: a reader has to begin again.
const POOR_BEGINNINGS: [&str; 7] = ["What", "Who", "Whom", "How", "That", "Those", "Whether"];

/// Fails unless `today` is `limit`. The list of offenders shows candidates for a remedy.
#[track_caller]
fn ratchet(what: &str, limit: usize, today: usize, offenders: &[String]) {
    assert!(
        today <= limit,
        "{what}: {today} instead of {limit}. This number only falls:\n{}",
        offenders.join("\n")
    );
    assert_eq!(
        today, limit,
        "{what}: only {today} are left; lower the constant in tests/it/tidy.rs"
    );
}

fn product() -> impl Iterator<Item = &'static Source> {
    SOURCES.iter().filter(|source| source.is_product)
}

/// Compares the greatest length with `longest`, and the number of lengths above `goal` with
/// `many`.
#[track_caller]
fn ratchet_lengths(
    what: &str,
    (longest, many, goal): (usize, usize, usize),
    lengths: impl Iterator<Item = (usize, String)>,
) {
    let mut long: Vec<(usize, String)> = lengths.filter(|(lines, _)| *lines > goal).collect();
    long.sort_unstable_by(|a, b| b.cmp(a));
    let today = long.first().map_or(goal, |(lines, _)| *lines);
    let mut named = Vec::new();
    for (lines, name) in &long {
        named.push(format!("{lines} lines: {name}"));
    }
    let above = format!("{what} of more than {goal} lines");
    ratchet(&above, many, long.len(), &named);
    let greatest = format!("lines of the longest of the {what}");
    ratchet(&greatest, longest, today, &named);
}

#[test]
fn code_is_distinguished_from_comments_and_literals() {
    for source in SOURCES.iter() {
        let count = |c| source.code.matches(c).count();
        assert_eq!(count('{'), count('}'), "braces of {}", source.path);
        assert_eq!(source.code.lines().count(), source.text.lines().count());
    }
}

#[test]
fn files_of_product_code_do_not_grow() {
    let lengths = product().map(|source| (source.text.lines().count(), source.path.clone()));
    ratchet_lengths("files", (FILE_LINES, LONG_FILES, FILE_GOAL), lengths);
}

#[test]
fn functions_of_product_code_do_not_grow() {
    let limits = (FUNCTION_LINES, LONG_FUNCTIONS, FUNCTION_GOAL);
    ratchet_lengths("functions", limits, product().flat_map(functions));
}

/// Returns the functions of a file: the lines of each, and its place and name.
fn functions(source: &Source) -> Vec<(usize, String)> {
    let code = &source.code;
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let rest = &code[start + 3..];
        let name = rest.split(|c| !is_word(c)).next().unwrap_or_default();
        if name.is_empty() || code[..start].ends_with(is_word) {
            continue;
        }
        let lines = code[start..item_end(code, start)].lines().count();
        let line = 1 + code[..start].matches('\n').count();
        found.push((lines, format!("{}:{line}: {name}", source.path)));
    }
    found
}

#[test]
fn modules_do_not_import_each_other_in_a_loop() {
    let (mut counts, mut named) = (Vec::new(), Vec::new());
    for (name, root) in CRATES {
        let circles = circles(root);
        counts.push(circles.iter().map(Vec::len).sum());
        for circle in circles {
            named.push(format!("{name}: {}", circle.join(", ")));
        }
    }
    for ((name, _), (limit, today)) in CRATES.iter().zip(MODULES_IN_CIRCLES.iter().zip(counts)) {
        let what = format!("modules of {name} in circles");
        ratchet(&what, *limit, today, &named);
    }
}

#[test]
fn comments_fit_their_width() {
    let mut wide = Vec::new();
    for source in SOURCES.iter() {
        for (line, _, width) in source.comment_lines() {
            if width > COMMENT_WIDTH {
                wide.push(format!("{}:{line}: {width} columns", source.path));
            }
        }
    }
    ratchet("wide comments", WIDE_COMMENTS, wide.len(), &wide);
}

#[test]
fn comments_begin_with_their_subject() {
    let mut poor = Vec::new();
    for source in SOURCES.iter() {
        for (line, comment, _) in source.comment_lines() {
            let text = comment.trim_start().trim_start_matches(['/', '!']);
            let text = text.trim_start();
            let text = text.trim_start_matches("* ").trim_start_matches("- ");
            let word = text.split(|c| !is_word(c)).next().unwrap_or_default();
            if POOR_BEGINNINGS.contains(&word) {
                poor.push(format!("{}:{line}: {text}", source.path));
            }
        }
    }
    ratchet("poor comments", POOR_COMMENTS, poor.len(), &poor);
}

/// rustdoc compiles an indented block of a library's documentation as a test in Rust. A fence names
/// the block's language.
#[test]
fn examples_in_documentation_name_their_language() {
    let mut indented = Vec::new();
    for source in product() {
        let (mut is_fenced, mut is_behind_blank) = (false, true);
        for (line, comment, _) in source.comment_lines() {
            let comment = comment.trim_start();
            let text = comment.strip_prefix("//!");
            let text = text.or_else(|| comment.strip_prefix("///"));
            let text = text.unwrap_or_default();
            is_fenced ^= text.trim_start().starts_with("```");
            // Indented lines right behind a text belong to its list item.
            if text.starts_with("     ") && !is_fenced && is_behind_blank {
                indented.push(format!("{}:{line}", source.path));
            }
            is_behind_blank = text.trim().is_empty();
        }
    }
    ratchet("indented examples", 0, indented.len(), &indented);
}

#[test]
fn names_of_types_are_found_by_search() {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in product() {
        for line in source.code.lines() {
            if let Some(name) = type_name(line) {
                places.entry(name).or_default().push(&source.path);
            }
        }
    }
    places.retain(|_, places| places.len() > 2);
    let mut named = Vec::new();
    for (name, places) in &places {
        named.push(format!("{name}: {}", places.join(", ")));
    }
    ratchet("repeated types", REPEATED_TYPES, named.len(), &named);
}

/// Returns the name of the type that a line defines. An associated type is indented and no
/// definition.
fn type_name(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_visible = words.first().is_some_and(|word| word.starts_with("pub"));
    let [kind, name, ..] = words.get(usize::from(is_visible)..)? else {
        return None;
    };
    let is_alias = *kind == "type" && !line.starts_with(' ');
    let is_type = ["struct", "enum", "union", "trait"].contains(kind) || is_alias;
    let name = name.split(|c| !is_word(c)).next();
    name.filter(|name| is_type && !name.is_empty())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
