//! Fields are stored by their names.

use super::*;

fn fields(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn keep(names: &[&str]) -> Selection {
    Selection {
        keep: Some(fields(names)),
        ..Selection::default()
    }
}

fn drop(names: &[&str]) -> Selection {
    Selection {
        drop: fields(names),
        ..Selection::default()
    }
}

#[test]
fn a_name_stands_for_the_field_and_all_below_it() {
    let all = Selection::default();
    assert!(all.is_all() && all.takes("a") && all.takes(""));
    let some = keep(&["a", "b.c"]);
    for (name, taken) in [
        ("a", true),
        ("a.b", true),
        ("a.b.c", true),
        ("ab", false),
        ("b", false),
        ("b.c", true),
        ("b.cd", false),
        ("", false),
    ] {
        assert_eq!(some.takes(name), taken, "keep {name}");
        assert_eq!(drop(&["a", "b.c"]).takes(name), !taken, "drop {name}");
    }
    assert!(
        !keep(&[]).is_all() && !keep(&[]).takes("a"),
        "none is not all"
    );
}

#[test]
fn the_time_is_stored_whatever_is_said() {
    for selection in [keep(&[]), drop(&[TIME, TIME_SOURCE])] {
        assert!(selection.takes(TIME) && selection.takes(TIME_SOURCE));
        assert!(!selection.takes("time.zone") || selection.keep.is_none());
    }
}

#[test]
fn the_raw_line_is_one_more_and_asks_for_no_other_field() {
    let raw = Selection {
        raw_line: true,
        ..Selection::default()
    };
    assert!(raw.is_all());
    assert!(!drop(&["x"]).is_all());
}

#[test]
fn a_field_that_no_access_log_has_is_named() {
    keep(&["host", "request"])
        .check(&storage::access_fields())
        .expect("known");
    for wrong in [keep(&["host", "pth"]), drop(&["pth"])] {
        let told = wrong
            .check(&storage::access_fields())
            .expect_err("unknown")
            .to_string();
        assert!(
            told.contains("pth") && told.contains("user_agent"),
            "{told}"
        );
    }
}
