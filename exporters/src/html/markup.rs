// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text as HTML, and drawings as SVG in a figure.

/// Names of processes, interfaces and control groups come from outside: none may become a tag or end an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// A drawing of this width and height. `class` selects the screens that show it.
pub(super) fn svg(class: &str, caption: &str, size: (f64, f64), body: &str) -> String {
    let (width, height) = size;
    format!(
        "<svg{class} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{caption}\">\n{body}</svg>"
    )
}

pub(super) fn figure(class: &str, caption: &str, drawings: &str) -> String {
    format!("<figure class=\"{class}\"><figcaption>{caption}</figcaption>{drawings}</figure>\n")
}
