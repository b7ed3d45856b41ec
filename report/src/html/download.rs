// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links that save a drawing and its data. The files are inside the page (`data:` URIs), so the page needs no script.

use std::fmt::Write as _;

use super::markup::{DRAWINGS, STYLE, each};
use crate::text::fit::wrapped;

/// Margin around a saved drawing, pixels.
const MARGIN: f64 = 8.0;
/// Height of a line of the caption.
const LINE: f64 = 16.0;
/// Estimated width of a letter.
const LETTER: f64 = 6.2;

/// A drawing below its caption as a separate SVG file, in the light colours of the page. `caption`: with escaped markup.
pub(super) fn standalone((width, height): (f64, f64), caption: &str, body: &str) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some tens of letters")]
    let letters = (width / LETTER) as usize;
    let lines = wrapped(caption, letters);
    let above = lines.lines().count() as f64 * LINE + MARGIN;
    let caption = each(lines.lines().zip(1_u8..), |(line, number)| {
        let y = f64::from(number) * LINE - above - 4.0;
        format!("<text y=\"{y:.0}\">{}</text>", line.trim())
    });
    let (width, height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN + above);
    let top = -MARGIN - above;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"-{MARGIN} {top:.0} {width:.0} {height:.0}\">\
         <style>{}</style><rect x=\"-{MARGIN}\" y=\"{top:.0}\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>{caption}{body}</svg>",
        style(body)
    )
}

/// The style of a drawing, with the light colours in place of CSS variables, which few programs support.
fn style(body: &str) -> String {
    let root = STYLE.split_once(":root {").and_then(|(_, rest)| rest.split_once('}'));
    let declared = root.map_or("", |(inside, _)| inside).split(';');
    let variables = declared.filter_map(|line| line.trim().strip_prefix("--")?.split_once(':'));
    let rules = variables.fold(DRAWINGS.to_owned(), |rules, (name, value)| {
        rules.replace(&format!("var(--{name})"), value.trim())
    });
    let is_used = |line: &&str| {
        let selector = line.split('{').next().unwrap_or_default();
        let mut classes = selector.split('.').skip(1).filter_map(|rest| rest.split([' ', ',']).next());
        // The licence header of the style sheet does not apply to a user's drawing.
        !line.starts_with("/*") && (!selector.contains('.') || classes.any(|class| body.contains(class)))
    };
    rules.lines().filter(is_used).collect::<Vec<_>>().join("\n")
}

/// `data`: the values of the drawing as CSV, if they can be saved too.
pub(super) fn links(name: &str, drawing: &str, data: Option<&str>) -> String {
    // Texts have quotes as entities, so all quotes of a drawing delimit attributes.
    let svg = link(name, "svg", "image/svg+xml;charset=utf-8", &drawing.replace('"', "'"));
    let csv = data.map(|data| format!(" {}", link(name, "csv", "text/csv;charset=utf-8", data)));
    format!("<p class=\"save\">Save as {svg}{}</p>", csv.unwrap_or_default())
}

fn link(name: &str, extension: &str, kind: &str, content: &str) -> String {
    format!(
        "<a download=\"{name}.{extension}\" href=\"data:{kind},{}\">{}</a>",
        encoded(content),
        extension.to_uppercase()
    )
}

/// Percent-encodes text for a URI in an attribute.
fn encoded(text: &str) -> String {
    let mut uri = String::with_capacity(text.len() + text.len() / 4);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b" '()*+,-.;=_!{}".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_drawing_has_colours_instead_of_variables() {
        let file = standalone((100.0, 20.0), "Energy of a &lt; b and c", "<path class=\"l1\" d=\"M0 0\"/>");
        assert!(
            file.contains(">Energy of a &lt;</text>") && file.contains("viewBox=\"-8 -48 116 76\""),
            "{file}"
        );
        assert!(!file.contains("var(") && file.contains(".l1 { stroke: #2a6fc9; }"), "{file}");
        assert!(file.starts_with("<svg xmlns=") && file.ends_with("</svg>"));
    }

    #[test]
    fn nothing_in_a_link_ends_it() {
        let link = links("plot", "<svg a=\"b\">100 %</svg>", Some("a,b\r\n\"x\",<&>#\r\n"));
        let uri = link.split("href=\"").nth(2).unwrap().split('"').next().unwrap();
        assert_eq!(uri, "data:text/csv;charset=utf-8,a,b%0D%0A%22x%22,%3C%26%3E%23%0D%0A");
        assert!(link.contains("%3Csvg a='b'%3E100 %25%3C%2Fsvg%3E"), "{link}");
    }
}
