use super::*;

fn check(block: &str, expected: &[(usize, &str)]) {
    let lines: Vec<(usize, &str)> = Lines::new(block.as_bytes())
        .map(|(at, line)| (at, std::str::from_utf8(line).unwrap()))
        .collect();
    assert_eq!(lines, expected, "{block:?}");
}

#[test]
fn lines_end_at_lf_and_one_cr_before_it_is_dropped() {
    check("", &[]);
    check("a", &[(0, "a")]);
    check("a\n", &[(0, "a")]);
    check("a\nb", &[(0, "a"), (2, "b")]);
    check("a\r\nb\r\n", &[(0, "a"), (3, "b")]);
    check("a\r\r\n", &[(0, "a\r")]);
    check("a\rb\n", &[(0, "a\rb")]);
    check("\n\r\n\n", &[(0, ""), (1, ""), (3, "")]);
    check("a\n\n", &[(0, "a"), (2, "")]);
    check("a\r", &[(0, "a")]);
}

#[test]
fn position_is_behind_the_last_line_given_out() {
    let mut lines = Lines::new(b"ab\ncd");
    assert_eq!(lines.position(), 0);
    lines.next();
    assert_eq!(lines.position(), 3);
    lines.next();
    assert_eq!(lines.position(), 5);
}
