// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as Markdown: its golden file, and that no name becomes markup.

use mpwatch_fixtures as fixture;
use mpwatch_report::markdown;

#[test]
fn a_report_has_its_sections() {
    let connections =
        vec![fixture::closed(0x00c1_05ed), fixture::failover(0x5c11_a0e2), fixture::fallen_back(0x0fa1_1bac)];
    let mut report = fixture::report(connections);
    report.losses = fixture::losses();
    insta::assert_snapshot!(markdown::report(&report));
}

#[test]
fn no_name_becomes_markup() {
    let mut connection = fixture::closed(1);
    connection.netns = "a|b <img src=x> [c](d) `e` **f**".to_owned();
    let text = markdown::report(&fixture::report(vec![connection]));
    assert!(text.contains("a\\|b &lt;img src=x> \\[c\\](d) \\`e\\` \\*\\*f\\*\\*"), "{text}");
}
