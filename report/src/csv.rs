// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV (RFC 4180). An empty cell is unknown. A text that a spreadsheet would parse as a formula gets an apostrophe; control characters are
//! replaced.

use mpwatch_model::kernel::endpoint::printable;
use serde_json::Value;

/// A table with a header row. A cell is a number, a text, or null (unknown).
pub fn table(columns: &[String], rows: &[Vec<Value>]) -> Result<String, csv::Error> {
    text(columns, rows.iter().map(|row| row.iter().map(plain)))
}

/// A text as a cell. Users choose names, which must neither control a terminal nor be a formula in a spreadsheet.
pub fn cell(text: &str) -> String {
    let text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.into_owned() }
}

/// A header and rows of cells as text.
pub fn text<Cells: IntoIterator<Item = String>>(
    header: &[impl AsRef<[u8]>],
    rows: impl IntoIterator<Item = Cells>,
) -> Result<String, csv::Error> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(header)?;
    for row in rows {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cell(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(cells: Vec<Value>) -> Vec<String> {
        let columns: Vec<String> = (0..cells.len()).map(|nth| format!("c{nth}")).collect();
        let text = table(&columns, &[cells]).unwrap();
        let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
        let row = reader.records().next().unwrap().unwrap();
        row.iter().map(str::to_owned).collect()
    }

    #[test]
    fn cells_can_be_read_back() {
        let cells = vec!["a,\"b\"".into(), Value::Null, 41_600.into(), (-1.5).into(), i64::MIN.into()];
        assert_eq!(read_back(cells), ["a,\"b\"", "", "41600", "-1.5", "-9223372036854775808"]);
    }

    #[test]
    fn a_name_is_not_a_formula_and_does_not_control_a_terminal() {
        for (name, expected) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@sum", "'@sum"),
            ("\t=1", "\u{fffd}=1"),
            ("\r=1", "\u{fffd}=1"),
            ("a\x1b[2J\u{9b}\n\u{202e}", "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(read_back(vec![name.into()]), [expected]);
        }
    }
}
