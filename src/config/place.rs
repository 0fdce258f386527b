//! Location of an error in `logmill.toml`, and the accepted form of the value there.

use std::path::Path;

/// Accepted forms of values: (section, key, form). The section is the first word of its header.
const FORMS: [(&str, &str, &str); 27] = [
    (
        "stream",
        "retention",
        "a table: retention = { age = \"90d\", bytes = \"200GB\" }",
    ),
    (
        "stream",
        "write_concern",
        "a table: write_concern = { w = 1, journal = false }",
    ),
    (
        "stream",
        "indexes",
        "a list of lists: indexes = [[\"path\"], [\"user\"]]",
    ),
    (
        "stream",
        "covering",
        "a list of lists: covering = [[\"path\"]]",
    ),
    (
        "stream",
        "order_by",
        "a list of columns: order_by = [\"host\", \"time\"]",
    ),
    (
        "stream",
        "partition",
        "a width: partition = \"hour\", \"day\" or \"month\"",
    ),
    (
        "stream",
        "keep",
        "a list of fields: keep = [\"host\", \"time\"]",
    ),
    (
        "stream",
        "drop",
        "a list of fields: drop = [\"user_agent\"]",
    ),
    ("stream", "rollups", "a list: rollups = [] for none"),
    ("stream", "raw_line", "raw_line = true or false"),
    (
        "stream",
        "anonymise",
        "a table, with quotes around dotted names: anonymise = { host = \"truncate\", \"client.ip\" = \"hash\" }",
    ),
    ("stream", "quarantine_raw", "quarantine_raw = true or false"),
    ("stream", "format", "a name: format = \"combined\""),
    (
        "kafka",
        "brokers",
        "a list: brokers = [\"kafka1:9092\", \"kafka2:9092\"]",
    ),
    (
        "cluster",
        "kafka",
        "a text: kafka = \"kafka1:9092,kafka2:9092\"",
    ),
    ("kafka", "topics", "a list: topics = [\"web\"]"),
    ("kafka", "stream", "a name: stream = \"web\""),
    (
        "kafka",
        "start",
        "start = \"earliest\", \"latest\" or a time: \"2026-10-10T00:00:00Z\"",
    ),
    ("kafka", "when_gone", "when_gone = \"stop\" or \"restart\""),
    ("rollup", "stream", "a name: stream = \"events\""),
    ("rollup", "by", "a list of keys: by = [\"site\", \"path\"]"),
    (
        "rollup",
        "levels",
        "a list: levels = [\"minute\", \"hour\", \"day\"]",
    ),
    (
        "rollup",
        "retention",
        "a table of levels: retention = { minute = \"7d\", hour = \"400d\" }",
    ),
    (
        "rollup",
        "measures",
        "a table: measures = { hits = \"count\", bytes = \"sum(response_size)\" }",
    ),
    ("rollup", "timezone", "a zone: timezone = \"Europe/Berlin\""),
    ("rollup", "week", "week = \"sunday\" or \"monday\""),
    ("rollup", "max_keys", "a number: max_keys = 100000"),
];

/// Formats an error of the file: its name, the line, and the fault or the accepted form.
pub(super) fn explained(path: &Path, text: &str, error: &toml::de::Error, message: &str) -> String {
    let Some(span) = error.span() else {
        return format!("{}: {message}", path.display());
    };
    let start = span.start.min(text.len());
    let line = line_of(text, start);
    let at = format!("{}:{line}", path.display());
    // A message about an unknown or missing field is clear by itself; a wrong value needs its
    // form.
    let wrong_form = [
        "invalid type",
        "invalid value",
        "unknown variant",
        "data did not match",
    ];
    if !wrong_form.iter().any(|begins| message.starts_with(begins)) {
        return format!("{at}: {message}");
    }
    let (section, key) = place(text, line);
    let form = FORMS
        .iter()
        .find(|(first, known, _)| *known == key && section.split('.').next() == Some(*first));
    match form {
        Some((.., form)) => format!("{at}: {key} of [{section}] is {form} ({message})"),
        None if section.is_empty() => format!("{at}: {key}: {message}"),
        None => format!("{at}: {key} of [{section}]: {message}"),
    }
}

/// Adds file and line to a problem that begins with its section and perhaps a key, as in
/// `[stream.web] retention: …`.
pub(super) fn located(path: &Path, text: Option<&str>, problem: &str) -> String {
    let line = text.and_then(|text| {
        let (section, rest) = problem.strip_prefix('[')?.split_once(']')?;
        let key: String = rest
            .trim_start()
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        find(text, section, &key)
    });
    match line {
        Some(line) => format!("{}:{line}: {problem}", path.display()),
        None => format!("{}: {problem}", path.display()),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    1 + before.filter(|b| **b == b'\n').count()
}

fn header(line: &str) -> Option<&str> {
    let inside = line.trim().strip_prefix('[')?.split_once(']')?.0;
    Some(inside.trim_matches('[').trim())
}

fn key(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    Some(key.trim().trim_matches('"'))
}

/// Returns the section and the key that a line belongs to.
fn place(text: &str, line: usize) -> (String, String) {
    let mut section = "";
    let mut found = "";
    for line in text.lines().take(line) {
        if let Some(name) = header(line) {
            (section, found) = (name, "");
        } else if let Some(name) = key(line) {
            found = name;
        }
    }
    // The section itself may be the value, as [stream.web.retention] is.
    if found.is_empty()
        && let Some((outer, last)) = section.rsplit_once('.')
    {
        return (outer.to_owned(), last.to_owned());
    }
    (section.to_owned(), found.to_owned())
}

/// Returns the line of a key in a section, or of the header of its own section, or else of the
/// section's header.
fn find(text: &str, section: &str, wanted: &str) -> Option<usize> {
    let mut of_header = None;
    let mut inside = false;
    let own = format!("{section}.{wanted}");
    for (n, line) in text.lines().enumerate() {
        if let Some(name) = header(line) {
            if name == own {
                return Some(n + 1);
            }
            inside = name == section;
            if inside {
                of_header = Some(n + 1);
            }
        } else if inside && key(line) == Some(wanted) {
            return Some(n + 1);
        }
    }
    of_header
}
