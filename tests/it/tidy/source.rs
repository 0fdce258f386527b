//! The Rust files of the workspace, each split into code and comments.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The crates of the workspace: the folder of each and its root file.
pub(super) const CRATES: [(&str, &str); 6] = [
    ("storage", "storage/src/lib.rs"),
    ("ingest", "ingest/src/lib.rs"),
    ("aggregator", "aggregator/src/lib.rs"),
    ("query", "query/src/lib.rs"),
    ("dashboards", "dashboards/src/lib.rs"),
    ("logmill", "src/main.rs"),
];

/// Every Rust file of the repository, in the order of the paths.
pub(super) static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let product = product_paths();
    let rust = FILES.iter().filter(|path| path.ends_with(".rs"));
    let read = |path: &String| Source::read(path, product.contains(path));
    rust.map(read).collect()
});

/// Every file of the repository: paths from its root, with `/`.
pub(super) static FILES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut files = BTreeSet::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry of a folder").path();
            let name = path.strip_prefix(root()).expect("a path below the root");
            let name = name.to_str().expect("a path in UTF-8").to_owned();
            match name.as_str() {
                // The compiler's output lies here by default; `.git` is a file in a worktree.
                "target" | "tests/fuzz/target" | ".git" => {}
                _ if path.is_dir() => folders.push(path),
                _ => {
                    files.insert(name);
                }
            }
        }
    }
    files
});

/// A Rust file.
#[derive(Debug)]
pub(super) struct Source {
    /// Path from the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with spaces for comments and literals; for product code also for inline modules of
    /// tests.
    pub(super) code: String,
    /// The text with spaces for everything but comments.
    pub(super) comments: String,
    /// The compiler builds this file into the program, not only into tests.
    pub(super) is_product: bool,
}

impl Source {
    fn read(path: &str, is_product: bool) -> Self {
        let text = read(path);
        let (mut code, comments) = split(&text);
        if is_product {
            code = without_tests(&code);
        }
        Self {
            path: path.to_owned(),
            text,
            code,
            comments,
            is_product,
        }
    }

    /// Returns the path of the module below its crate: `plan`, `rules` of `plan/rules.rs`.
    pub(super) fn module(&self) -> Vec<&str> {
        let (_, below) = self.path.split_once("src/").expect("a file below src");
        let below = below.trim_end_matches(".rs").trim_end_matches("/mod");
        let is_root = ["lib", "main"].contains(&below);
        below.split('/').filter(|_| !is_root).collect()
    }

    /// Returns the comment lines: each with its number, its text and the width of the whole line.
    pub(super) fn comment_lines(&self) -> impl Iterator<Item = (usize, &str, usize)> {
        let lines = self.comments.lines().zip(self.text.lines());
        let numbered = (1..).zip(lines);
        let with_width = numbered.map(|(n, (comment, line))| (n, comment, line.chars().count()));
        with_width.filter(|(_, comment, _)| !comment.trim().is_empty())
    }
}

pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("a text file of the repository")
}

/// Returns the files that the crates' roots reach by `mod`, without those behind `cfg(test)`.
fn product_paths() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = CRATES.iter().map(|(_, root)| (*root).to_owned()).collect();
    while let Some(path) = open.pop() {
        let folder = match Path::new(&path).file_name().and_then(|name| name.to_str()) {
            Some("lib.rs" | "main.rs" | "mod.rs") => path.rsplit_once('/').expect("a folder").0,
            _ => path.trim_end_matches(".rs"),
        };
        for (name, is_test) in modules(&split(&read(&path)).0) {
            let candidates = [
                format!("{folder}/{name}.rs"),
                format!("{folder}/{name}/mod.rs"),
            ];
            let file = candidates.into_iter().find(|path| FILES.contains(path));
            let file = file.unwrap_or_else(|| panic!("no file of the module {name} in {path}"));
            if !is_test {
                open.push(file);
            }
        }
        found.insert(path);
    }
    found
}

/// Returns the modules that `code` declares in files of their own, and which of them are tests.
fn modules(code: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    for item in code.split_inclusive([';', '}']) {
        let words: Vec<&str> = item.trim_end_matches(';').split_whitespace().collect();
        if let [.., "mod", name] = words[..]
            && item.ends_with(';')
        {
            found.push((name, is_of_tests(item)));
        }
    }
    found
}

/// Checks whether the attributes of an item keep it to builds of tests.
fn is_of_tests(item: &str) -> bool {
    item.contains("#[cfg(test)]") || item.contains("#[cfg(any(test")
}

/// Puts spaces in the place of inline modules behind `cfg(test)`.
fn without_tests(code: &str) -> String {
    let mut kept = code.to_owned();
    while let Some(start) = kept.find("#[cfg(test)]") {
        let end = item_end(&kept, start);
        let blank = blank(&kept[start..end]);
        kept.replace_range(start..end, &blank);
    }
    kept
}

/// Returns the end of the item that begins at `start`: behind its `;` or its closing brace.
pub(super) fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_i32;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' => depth -= 1,
            b'}' if depth == 1 => return offset + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    code.len()
}

fn blank(text: &str) -> String {
    let space = |c| if c == '\n' { '\n' } else { ' ' };
    text.chars().map(space).collect()
}

/// Splits a text into its code and its comments, both with the lines of the text.
fn split(text: &str) -> (String, String) {
    let (mut code, mut comments) = (String::new(), String::new());
    let mut rest = text;
    while let Some(found) = literal_or_comment(rest) {
        let Range { start, end } = found;
        let (before, piece) = (&rest[..start], &rest[start..end]);
        code.push_str(before);
        comments.push_str(&blank(before));
        code.push_str(&blank(piece));
        let is_comment = piece.starts_with("//") || piece.starts_with("/*");
        comments.push_str(&if is_comment {
            piece.to_owned()
        } else {
            blank(piece)
        });
        rest = &rest[end..];
    }
    code.push_str(rest);
    comments.push_str(&blank(rest));
    (code, comments)
}

/// Finds the first literal of text or comment.
fn literal_or_comment(text: &str) -> Option<Range<usize>> {
    let mut from = 0;
    loop {
        let start = from + text[from..].find(['/', '"', '\''])?;
        let rest = &text[start..];
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with('"') {
            text_len(&text[..start], rest)
        } else {
            char_len(rest)
        };
        if len > 0 {
            return Some(start..start + len);
        }
        from = start + 1;
    }
}

/// Returns the length of the text literal at the beginning of `rest`; `before` may end with `r#`.
fn text_len(before: &str, rest: &str) -> usize {
    let hashes = before.len() - before.trim_end_matches('#').len();
    if before[..before.len() - hashes].ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        return rest[1..]
            .find(&end)
            .map_or(rest.len(), |at| 1 + at + end.len());
    }
    let mut is_escaped = false;
    for (offset, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return offset + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    rest.len()
}

/// Returns the length of the character literal at the beginning of `rest`; 0 for a lifetime.
fn char_len(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    let is_escaped = chars.next().is_some_and(|(_, c)| c == '\\');
    let end = match chars.next() {
        Some((offset, '\'')) if !is_escaped => Some(offset),
        Some((offset, _)) if is_escaped => {
            let behind = offset + rest[offset..].chars().next().map_or(0, char::len_utf8);
            rest[behind..].find('\'').map(|at| behind + at)
        }
        _ => None,
    };
    end.map_or(0, |end| end + 1)
}
