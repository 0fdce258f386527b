//! The statements behind `\d` and `\dt`.

/// A name as a user writes it: parts without quotes are of lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for c in name.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(String::new()),
            c => {
                let part = parts.last_mut().expect("BUG: begins with one part");
                match is_quoted {
                    true => part.push(c),
                    false => part.extend(c.to_lowercase()),
                }
            }
        }
    }
    parts
}

/// Returns a text as an SQL literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns a pattern of `*` and `?` as an SQL literal of `LIKE`.
fn pattern(text: &str) -> String {
    let mut like = String::new();
    for c in text.chars() {
        match c {
            '*' => like.push('%'),
            '?' => like.push('_'),
            '%' | '_' | '\\' => like.extend(['\\', c]),
            c => like.push(c),
        }
    }
    literal(&like)
}

/// Returns the statement that lists the columns of a table.
pub(super) fn columns(name: &str) -> String {
    let mut parts = parts(name);
    let table = parts.pop().unwrap_or_default();
    let schema = parts.pop().unwrap_or_else(|| "public".to_owned());
    format!(
        "SELECT c.column_name AS \"column\", c.data_type AS type, c.is_nullable AS nullable \
         FROM information_schema.columns c \
         WHERE c.table_schema = {} AND c.table_name = {} ORDER BY c.ordinal_position",
        literal(&schema),
        literal(&table)
    )
}

/// Returns the statement that lists tables: those of all schemas but the catalogs of SQL, or those
/// that a pattern fits.
pub(super) fn tables(name: Option<&str>) -> String {
    let condition = match name.map(parts) {
        None => "table_schema NOT IN ('information_schema', 'pg_catalog')".to_owned(),
        Some(mut parts) => {
            let table = pattern(&parts.pop().unwrap_or_default());
            match parts.pop() {
                Some(schema) => format!(
                    "table_schema LIKE {} AND table_name LIKE {table}",
                    pattern(&schema)
                ),
                None => format!(
                    "table_schema NOT IN ('information_schema', 'pg_catalog') \
                     AND table_name LIKE {table}"
                ),
            }
        }
    };
    format!(
        "SELECT table_schema AS schema, table_name AS name, \
         CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END AS type \
         FROM information_schema.tables WHERE {condition} ORDER BY 1, 2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_at_its_points() {
        assert_eq!(parts("Stats.Daily"), ["stats", "daily"]);
        assert_eq!(parts("\"A.b\".c"), ["A.b", "c"]);
    }

    #[test]
    fn a_pattern_and_a_name_cannot_end_their_literal() {
        assert_eq!(pattern("st?ts_*'"), "'st_ts\\_%'''");
        let sql = columns("x'; SELECT 1");
        assert!(sql.contains("c.table_name = 'x''; select 1'"), "{sql}");
    }

    #[test]
    fn a_pattern_without_a_schema_leaves_catalogs_out() {
        assert!(tables(Some("a*")).contains("NOT IN"));
        let sql = tables(Some("pg_catalog.*"));
        assert!(!sql.contains("NOT IN"), "{sql}");
        assert!(sql.contains("table_schema LIKE 'pg\\_catalog'"), "{sql}");
    }
}
