//! The syntax of `LogFormat` (`mod_log_config`) and `log_format` (`ngx_http_log_module`).

use super::names::{PatternPart, apache as directive, nginx as variable};

/// Formats that the servers bring or that their users share, by name.
pub(super) const PRESETS: [(&str, &str, &str); 8] = [
    ("apache", "common", r#"%h %l %u %t "%r" %>s %b"#),
    (
        "apache",
        "combined",
        r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
    ),
    (
        "apache",
        "combinedio",
        r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %I %O"#,
    ),
    (
        "apache",
        "vhost_combined",
        r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#,
    ),
    (
        "nginx",
        "combined",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
    ),
    (
        "nginx",
        "main",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for""#,
    ),
    (
        "nginx",
        "timed",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time $upstream_response_time"#,
    ),
    (
        "nginx",
        "ingress",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id"#,
    ),
];

fn preset(server: &str, name: &str) -> Option<&'static str> {
    let mut presets = PRESETS.iter();
    presets
        .find(|(of, known, _)| *of == server && *known == name)
        .map(|(_, _, text)| *text)
}

/// Compiles a `LogFormat`: its text, or the line of the configuration that has it.
pub(super) fn apache(text: &str) -> Result<Vec<PatternPart>, String> {
    let text = text.trim();
    if let Some(preset) = preset("apache", text) {
        return directives(preset);
    }
    let text = text.strip_prefix("LogFormat").map_or(text, str::trim_start);
    match text.strip_prefix('"') {
        None => directives(text),
        Some(_) => directives(&quoted(text)?.0),
    }
}

/// Compiles a `log_format`: its text, or the directive that has it.
pub(super) fn nginx(text: &str) -> Result<Vec<PatternPart>, String> {
    let mut text = text.trim().trim_end_matches(';').trim_end();
    if let Some(preset) = preset("nginx", text) {
        return variables(preset);
    }
    if let Some(directive) = text.strip_prefix("log_format ") {
        let named = directive.trim_start();
        text = named
            .split_once(char::is_whitespace)
            .map_or("", |(_, rest)| rest)
            .trim_start();
        if let Some(escape) = text.strip_prefix("escape=") {
            let (how, rest) = escape
                .split_once(char::is_whitespace)
                .unwrap_or((escape, ""));
            if how == "json" {
                return Err("its lines are JSON: use the format json".to_owned());
            }
            text = rest.trim_start();
        }
    }
    if !text.starts_with(['\'', '"']) {
        return variables(text);
    }
    let mut joined = String::new();
    while !text.is_empty() {
        let (part, rest) = quoted(text)?;
        joined += &part;
        text = rest.trim_start();
    }
    variables(&joined)
}

/// Reads a text in quotes of either kind. Returns it without its escapes, and what follows.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut characters = text.char_indices();
    let quote = match characters.next() {
        Some((_, quote @ ('\'' | '"'))) => quote,
        _ => return Err(format!("{text:?} is not in quotes")),
    };
    let mut found = String::new();
    while let Some((at, c)) = characters.next() {
        match c {
            c if c == quote => return Ok((found, &text[at + c.len_utf8()..])),
            '\\' => match characters.next() {
                Some((_, 't')) => found.push('\t'),
                Some((_, 'n')) => found.push('\n'),
                Some((_, c @ ('"' | '\'' | '\\'))) => found.push(c),
                Some((_, other)) => found.extend(['\\', other]),
                None => {}
            },
            c => found.push(c),
        }
    }
    Err(format!("the quote {quote} is not closed"))
}

fn literal(text: &str) -> PatternPart {
    PatternPart::Literal(text.as_bytes().to_vec())
}

/// Reads `%[conditions][<>]{argument}letter` and the text between them.
fn directives(text: &str) -> Result<Vec<PatternPart>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        if at > 0 {
            found.push(literal(&rest[..at]));
        }
        let begin = &rest[at..];
        let mut behind = &begin[1..];
        if let Some(next) = behind.strip_prefix('%') {
            found.push(literal("%"));
            rest = next;
            continue;
        }
        // Conditions on the status, and which of several requests is meant.
        behind = behind.trim_start_matches(|c: char| c.is_ascii_digit() || "!,<>".contains(c));
        let argument = match behind.strip_prefix('{') {
            None => None,
            Some(inner) => {
                let (argument, next) = inner
                    .split_once('}')
                    .ok_or_else(|| format!("{{ is not closed in {begin:?}"))?;
                behind = next.trim_start_matches(['<', '>']);
                Some(argument)
            }
        };
        let two = behind.get(..3).filter(|two| matches!(*two, "^ti" | "^to"));
        let letter = match two {
            Some(two) => &two[1..],
            None => behind.get(..1).unwrap_or_default(),
        };
        behind = &behind[two.map_or(letter.len(), str::len)..];
        let spelling = &begin[..begin.len() - behind.len()];
        let value = directive(spelling, letter, argument);
        found.push(value.ok_or_else(|| format!("the directive {spelling:?} is not known"))?);
        rest = behind;
    }
    if !rest.is_empty() {
        found.push(literal(rest));
    }
    Ok(found)
}

/// Reads `$name` or `${name}` and the text between them.
fn variables(text: &str) -> Result<Vec<PatternPart>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            found.push(literal(&rest[..at]));
        }
        let begin = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, behind) = match begin.strip_prefix('{') {
            Some(inner) => inner
                .split_once('}')
                .ok_or_else(|| format!("{{ is not closed in {:?}", &rest[at..]))?,
            None => begin.split_at(begin.find(|c| !is_name(c)).unwrap_or(begin.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("{:?} has no name of a variable", &rest[at..]));
        }
        found.push(variable(name));
        rest = behind;
    }
    if !rest.is_empty() {
        found.push(literal(rest));
    }
    Ok(found)
}
