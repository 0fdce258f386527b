//! `logmill.toml` as a user gets it wrong: every error names the file, the line and what was meant.

use crate::support::{Home, Server, run, sample};

#[test]
fn an_error_of_the_file_names_its_line_and_the_form_that_was_meant() {
    let home = Home::new();
    let text = "[storage]\nlag = \"5s\"\n\n[stream.web]\nretention = \"90d\"\n";
    let file = home.file("logmill.toml", text);
    let told = run(&["config", "show", "--config", &file]).code(78);
    let said = format!(
        "{file}:5: retention of [stream.web] is a table: retention = {{ age = \"90d\", bytes = \"200GB\" }}"
    );
    assert!(told.stderr.contains(&said), "{}", told.stderr);
}

#[test]
fn what_cannot_be_applied_to_a_stream_that_exists_is_said_with_what_holds() {
    let home = Home::new();
    let before = home.file("before.toml", "[stream.access]\npartition = \"month\"\n");
    let import = [
        "import",
        &sample(),
        "--stream",
        "access",
        "--data",
        &home.data,
    ];
    let told = run(&[&import[..], &["--config", &before]].concat()).code(0);
    assert!(!told.stderr.contains("is not applied"), "{}", told.stderr);
    let after = home.file(
        "after.toml",
        "[stream.access]\npartition = \"day\"\norder_by = [\"path\"]\nindexes = [[\"pth\"], [\"path\"]]\n[stream.new]\npartition = \"hour\"\n",
    );
    let told = run(&["rollup", "run", "--data", &home.data, "--config", &after]).code(0);
    for said in [
        "[stream.access] partition = \"day\" is not applied: the stream keeps \"month\"",
        "[stream.access] order_by = [\"path\"] is not applied: the stream keeps [\"host\",\"time\"]",
        "[stream.access] indexes: the stream has no column \"pth\"",
    ] {
        assert!(told.stderr.contains(said), "{said}: {}", told.stderr);
    }
    assert_eq!(told.stderr.lines().count(), 3, "{}", told.stderr);
}

#[test]
fn a_server_says_when_it_begins_an_empty_store() {
    let home = Home::new();
    // The log of both starts is one file.
    for _ in 0..2 {
        let server = Server::start(&home.data);
        let told = server.log().matches("holds no store yet").count();
        assert_eq!(told, 1, "{}", server.log());
        server.stop();
    }
}

#[test]
fn help_lists_the_forms_of_output_that_a_command_takes() {
    for command in ["import", "slice", "tail"] {
        let help = run(&[command, "--help"]).code(0).stdout;
        assert!(help.contains("ndjson") && !help.contains("arrow"), "{help}");
    }
    assert!(run(&["--help"]).code(0).stdout.contains("--output arrow"));
}
