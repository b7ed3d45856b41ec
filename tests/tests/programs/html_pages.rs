// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTML report in Chromium: at the widths of a phone, a laptop and a large screen, no table, list or drawing is wider than its place.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::Command;

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_report::html;
use mpwatch_tests::skip;
use tempfile::TempDir;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const WIDTHS: [u32; 3] = [390, 1_200, 1_800];

/// Appends a list of cut elements to the page for each frame: elements that are wider than their place or end outside of the frame.
const MEASURE: &str = "<script>onload = () => {
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument, width = page.documentElement.clientWidth;
    for (const details of page.querySelectorAll('details')) details.open = true;
    const parts = [...page.querySelectorAll('table, td, th, dd, li, h1, h2, p, figure')];
    const cut = parts.filter(part => part.getClientRects().length && (part.scrollWidth > part.clientWidth + 1
      || part.getBoundingClientRect().right > width + 1 || part.getBoundingClientRect().right > part.parentElement.getBoundingClientRect().right + 1));
    const words = cut.map(part => part.tagName + ' ' + part.textContent.slice(0, 30));
    document.body.append(`[${width}: ${parts.length} measured, cut: ${words.join('; ') || 'none'}]`);
  }
}</script>";

/// The page after a browser has run its script. `None`: there is no browser.
fn rendered(page: &str) -> Option<String> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("page.html");
    fs::write(&file, page).unwrap();
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let run = |browser: &&str| {
        let mut command = Command::new(browser);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ]);
        command.args([&profile, &format!("file://{}", file.display())]).output().ok()
    };
    let output = BROWSERS.iter().find_map(run)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn nothing_of_a_report_is_cut() {
    let connections = vec![fixture::closed(1), fixture::failover(2), fixture::fallen_back(3)];
    let report = html::report(&fixture::report(connections), &CounterSeries::new());
    let inside = report.replace('&', "&amp;").replace('"', "&quot;");
    let frames = WIDTHS.map(|width| {
        format!(
            "<iframe srcdoc=\"{inside}\" scrolling=\"no\" style=\"width: {width}px; border: 0\"></iframe>"
        )
    });
    let Some(text) = rendered(&format!("<!doctype html><body>{}{MEASURE}", frames.concat())) else {
        return skip("Chromium is missing; it is in Debian's package chromium");
    };
    let results: Vec<&str> = text.rsplit('[').take(WIDTHS.len()).collect();
    for width in WIDTHS {
        let result = results.iter().find(|result| result.starts_with(&format!("{width}: ")));
        let result = result.unwrap_or_else(|| panic!("no result for {width} px: {results:?}"));
        assert!(result.contains("cut: none]") && !result.contains(": 0 measured"), "{result}");
    }
}
