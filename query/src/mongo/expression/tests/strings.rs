//! Strings.

use super::check;

#[test]
fn parts_and_lengths() {
    // "$concat", "$substrBytes", "$substrCP", "$strLenCP", "$indexOfCP".
    check(
        r#"
        {"$concat": ["$s", ", ", "you"]} => "Hello, you"
        {"$concat": []} => ""
        {"$concat": ["$s", "$n"]} => null
        {"$concat": ["$s", 1]} => error 16702
        {"$substr": ["$s", 1, 3]} => "ell"
        {"$substr": ["$s", 1, -1]} => "ello"
        {"$substr": ["$s", 10, 2]} => ""
        {"$substr": [12345, 1, 2]} => "23"
        {"$substr": ["$s", -1, 2]} => error 50752
        {"$substr": ["$s", "x", 2]} => error 16034
        {"$substr": ["$s", 0, "x"]} => error 16035
        {"$substrBytes": ["$u", 0, 2]} => "é"
        {"$substrBytes": ["$u", 1, 2]} => error 28656
        {"$substrBytes": ["$u", 0, 1]} => error 28657
        {"$substr": ["$date", 0, 10]} => "2000-10-10"
        {"$substrCP": ["$u", 1, 2]} => "日本"
        {"$substrCP": ["$u", 5, 2]} => ""
        {"$substrCP": ["$u", -1, 2]} => error 34455
        {"$substrCP": ["$u", 0, -2]} => error 34454
        {"$substrCP": ["$u", 0.5, 2]} => error 34451
        {"$strLenCP": "$u"} => 3
        {"$strLenBytes": "$u"} => 8
        {"$strLenCP": ""} => 0
        {"$strLenCP": 5} => error 34471
        {"$strLenBytes": "$n"} => error 34473
        {"$indexOfCP": ["cafeteria", "e"]} => 3
        {"$indexOfCP": ["$u", "本"]} => 2
        {"$indexOfCP": ["foo.bar.fi", ".", 5]} => 7
        {"$indexOfCP": ["vanilla", "ll", 0, 2]} => -1
        {"$indexOfCP": ["vanilla", "ll", 12]} => -1
        {"$indexOfCP": ["vanilla", "nilla", 3]} => -1
        {"$indexOfCP": ["vanilla", "ll", -1]} => error 40097
        {"$indexOfCP": ["vanilla", "$n"]} => error 40094
        {"$indexOfCP": [1, "a"]} => error 40093
        "#,
    );
}

#[test]
fn case_and_order() {
    // "$toLower", "$toUpper", "$strcasecmp": ASCII alone, null is the empty string.
    check(
        r#"
        {"$toLower": "$s"} => "hello"
        {"$toUpper": "$u"} => "é日本"
        {"$toUpper": 12} => "12"
        {"$toLower": "$t"} => error 16007
        {"$toLower": "$a"} => error 16007
        {"$strcasecmp": ["$s", "HELLO"]} => 0
        {"$strcasecmp": ["a", "B"]} => -1
        {"$strcasecmp": ["b", "A"]} => 1
        {"$strcasecmp": ["$n", ""]} => 0
        "#,
    );
}

#[test]
fn cutting_up() {
    // "$split", "$trim", "$ltrim", "$rtrim".
    check(
        r#"
        {"$split": ["June-15-2013", "-"]} => ["June", "15", "2013"]
        {"$split": ["banana split", "a"]} => ["b", "n", "n", " split"]
        {"$split": ["$s", "pp"]} => ["Hello"]
        {"$split": ["$s", "$n"]} => null
        {"$split": ["$s", ""]} => error 40087
        {"$split": [1, "-"]} => error 40085
        {"$split": ["$s", 1]} => error 40086
        {"$trim": {"input": "  \n good  bye \t  "}} => "good  bye"
        {"$trim": {"input": "ggggoodbyeeeee", "chars": "ge"}} => "oodby"
        {"$ltrim": {"input": "  x "}} => "x "
        {"$rtrim": {"input": "  x "}} => "  x"
        {"$trim": {"input": "$n"}} => null
        {"$trim": {"input": "$s", "chars": "$n"}} => null
        {"$trim": {"input": 1}} => error 50699
        {"$trim": {"input": "$s", "chars": 1}} => error 50700
        {"$trim": {"chars": "a"}} => error 50695
        {"$trim": {"input": "$s", "x": 1}} => error 50694
        {"$trim": "$s"} => error 50696
        "#,
    );
}

#[test]
fn patterns() {
    // "$regexMatch".
    check(
        r#"
        {"$regexMatch": {"input": "$s", "regex": "ell"}} => true
        {"$regexMatch": {"input": "$s", "regex": "^h"}} => false
        {"$regexMatch": {"input": "$s", "regex": "^h", "options": "i"}} => true
        {"$regexMatch": {"input": "$s", "regex": "$r"}} => true
        {"$regexMatch": {"input": "$s", "regex": "$r", "options": "i"}} => error 51107
        {"$regexMatch": {"input": "$n", "regex": "a"}} => false
        {"$regexMatch": {"input": "$s", "regex": "$n"}} => false
        {"$regexMatch": {"input": "$s", "regex": "a", "options": "$n"}} => false
        {"$regexMatch": {"input": 1, "regex": "a"}} => error 51104
        {"$regexMatch": {"input": "$s", "regex": 1}} => error 51105
        {"$regexMatch": {"input": "$s", "regex": "a", "options": 1}} => error 51106
        {"$regexMatch": {"input": "$s", "regex": "a", "options": "q"}} => error 51108
        {"$regexMatch": {"input": "$s", "regex": "("}} => error 51111
        {"$regexMatch": {"input": "$s"}} => error 31022
        {"$regexMatch": {"input": "$s", "regex": "a", "x": 1}} => error 31024
        {"$regexMatch": "$s"} => error 51103
        "#,
    );
}
