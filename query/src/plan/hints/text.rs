//! The text of hints: the content of a comment `/*+ … */`.

const KNOWN: &str = "no_rollup, no_index, index(COLUMN, …), order(COLUMN, …), top_k and no_top_k";

/// One hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hint {
    NoRollup,
    NoIndex,
    /// True to always find the first rows by time first, false to never do so.
    TopK(bool),
    /// The columns of which indexes may be used.
    Index(Vec<String>),
    /// The columns with which the order of the parts has to begin.
    Order(Vec<String>),
}

/// Reads the hints of a comment.
///
/// # Errors
/// A message naming an unknown hint: a hint without effect would go unnoticed.
pub(super) fn parse(comment: &str) -> Result<Vec<Hint>, String> {
    split(comment).iter().map(|hint| read(hint)).collect()
}

fn read(hint: &str) -> Result<Hint, String> {
    let unknown = || format!("unknown hint {hint:?}; the hints are {KNOWN}");
    let (name, columns) = match hint.strip_suffix(')').and_then(|h| h.split_once('(')) {
        Some((name, columns)) => {
            let columns = columns.split(',').filter(|c| !c.is_empty());
            let columns = columns.map(|c| c.trim_matches('"').to_owned());
            (name, columns.collect::<Vec<_>>())
        }
        None => (hint, Vec::new()),
    };
    if columns.iter().any(String::is_empty) {
        return Err(unknown());
    }
    Ok(
        match (name.to_ascii_lowercase().as_str(), columns.is_empty()) {
            ("no_rollup", true) => Hint::NoRollup,
            ("no_index", true) => Hint::NoIndex,
            ("top_k", true) => Hint::TopK(true),
            ("no_top_k", true) => Hint::TopK(false),
            ("index", false) => Hint::Index(columns),
            ("order", false) => Hint::Order(columns),
            _ => return Err(unknown()),
        },
    )
}

/// Splits one comment into its hints: words, each with optional arguments in parentheses.
fn split(text: &str) -> Vec<String> {
    let mut hints = Vec::new();
    let (mut hint, mut depth) = (String::new(), 0_u32);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c.is_whitespace() || c == ',') {
            hints.extend(Some(std::mem::take(&mut hint)).filter(|h| !h.is_empty()));
        } else if !c.is_whitespace() {
            hint.push(c);
        }
    }
    hints.extend(Some(hint).filter(|h| !h.is_empty()));
    hints
}
