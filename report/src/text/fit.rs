// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text in lines of a limited width, for a terminal.

use unicode_width::UnicodeWidthStr;

/// Wraps lines longer than `width` columns at spaces. Continuation lines are indented as far as the text after the label.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    text.lines().map(|line| wrapped_line(line, width) + "\n").collect()
}

fn wrapped_line(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let (label, words) =
        label(text).filter(|(label, _)| indent + label.width() <= width / 3).unwrap_or(("", text));
    // A line without a label may continue the line above.
    let hanging = match label.width() {
        0 if indent > 4 => indent,
        0 => indent + 2,
        width => indent + width,
    };
    let mut wrapped = format!("{}{label}", " ".repeat(indent));
    let mut used = wrapped.width();
    let mut gap = "";
    for word in words.split_whitespace() {
        if !gap.is_empty() && used + 1 + word.width() > width {
            wrapped = format!("{wrapped}\n{}", " ".repeat(hanging));
            (used, gap) = (hanging, "");
        }
        wrapped = format!("{wrapped}{gap}{word}");
        used += gap.len() + word.width();
        gap = " ";
    }
    wrapped
}

/// The label of a line with the spaces after it, and the rest. `None`: no label.
fn label(text: &str) -> Option<(&str, &str)> {
    let end = text.find("  ")?;
    let rest = text[end..].trim_start();
    Some(text.split_at(text.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_below_their_text() {
        assert_eq!(wrapped("short\n\n  x", 10), "short\n\n  x\n");
        assert_eq!(
            wrapped("from     one two three four five", 27),
            "from     one two three four\n         five\n"
        );
        assert_eq!(wrapped("  ! one two three four", 14), "  ! one two\n    three four\n");
        assert_eq!(wrapped("         one two three", 17), "         one two\n         three\n");
        assert_eq!(wrapped("averyveryverylongword and more", 12), "averyveryverylongword\n  and more\n");
    }
}
