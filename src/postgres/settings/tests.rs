use super::*;

#[test]
fn values_are_kept_as_postgresql_prints_them() {
    let mut settings = Settings::new("alice");
    for (name, value, shown) in [
        ("TimeZone", "europe/berlin", "Europe/Berlin"),
        ("timezone", "-3", "Etc/GMT+3"),
        ("TIMEZONE", "default", "UTC"),
        ("statement_timeout", "90000", "90s"),
        ("statement_timeout", "1500ms", "1500ms"),
        ("statement_timeout", "0", "0"),
        ("datestyle", "iso, dmy", "ISO, MDY"),
        ("client_encoding", "utf-8", "UTF8"),
        ("extra_float_digits", "3", "3"),
        ("jit", "true", "on"),
        ("my.own", "x", "x"),
    ] {
        settings.set(name, value).expect("a value that is taken");
        assert_eq!(
            settings.show(name).expect("known").1,
            shown,
            "{name} = {value}"
        );
    }
    assert_eq!(settings.show("DATESTYLE").expect("known").0, "DateStyle");
    settings.set("statement_timeout", "2min").expect("taken");
    assert_eq!(settings.timeout, Some(Duration::from_secs(120)));
    settings.reset_all();
    assert_eq!(settings, Settings::new("alice"));
}

#[test]
fn a_value_that_would_be_ignored_is_refused() {
    let mut settings = Settings::new("alice");
    for (name, value, code) in [
        ("no_such", "1", "42704"),
        ("datestyle", "german", "22023"),
        ("client_encoding", "latin1", "22023"),
        ("timezone", "Nowhere/Town", "22023"),
        ("timezone", "99", "22023"),
        ("statement_timeout", "5 years", "22023"),
        ("statement_timeout", "99999999999999999999", "22023"),
        ("standard_conforming_strings", "off", "22023"),
        ("server_version", "99", "55P02"),
    ] {
        let refused = settings.set(name, value).expect_err("refused");
        assert_eq!(refused.code, code, "{name} = {value}");
    }
    assert_eq!(settings, Settings::new("alice"));
}

#[test]
fn the_schema_is_the_first_of_the_search_path() {
    let mut settings = Settings::new("alice");
    assert_eq!(settings.schema().as_deref(), Some("public"));
    settings
        .set("search_path", "\"Stats\", public")
        .expect("taken");
    assert_eq!(settings.schema().as_deref(), Some("Stats"));
    settings.set("search_path", "").expect("taken");
    assert_eq!(settings.schema(), None);
}
