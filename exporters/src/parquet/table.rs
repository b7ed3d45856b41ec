// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parquet files: every column is optional (NULL: unknown), integers are INT64, fractions DOUBLE, text UTF-8. Compressed with zstd.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use mpwatch_model::table::{Cell, Column, ColumnType, Row};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

pub(super) use parquet::errors::ParquetError as Error;

/// Rows per row group, which a reader can skip as a whole. 50 000 connections take some 50 MB of memory until they are written.
const ROWS_PER_GROUP: usize = 50_000;

/// Writes a table into a file. Dropped without [`TableWriter::finish`], it leaves a file that no reader accepts.
pub(super) struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Buffer>,
    buffered: usize,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file. `notes`: names and values for the metadata of the file.
    pub(super) fn new(output: W, columns: &[Column], notes: &[(&str, &str)]) -> Result<Self> {
        let notes = notes.iter().map(|(name, value)| KeyValue::new((*name).to_owned(), (*value).to_owned()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(notes.collect()))
            .build();
        let file = SerializedFileWriter::new(output, schema(columns)?, Arc::new(properties))?;
        Ok(Self { file, columns: columns.iter().map(Buffer::new).collect(), buffered: 0 })
    }

    /// Adds a row. Fails if its cells do not have the number and types of the columns, or if the file cannot be written.
    pub(super) fn push(&mut self, row: Row) -> Result<()> {
        if row.len() != self.columns.len() {
            let (cells, columns) = (row.len(), self.columns.len());
            return Err(ParquetError::General(format!("a row of {cells} cells for {columns} columns")));
        }
        self.columns.iter_mut().zip(row).try_for_each(|(column, cell)| column.push(cell))?;
        self.buffered += 1;
        if self.buffered < ROWS_PER_GROUP { Ok(()) } else { self.write_group() }
    }

    /// Writes the remaining rows and the footer, without which the file is not readable.
    pub(super) fn finish(mut self) -> Result<W> {
        if self.buffered > 0 {
            self.write_group()?;
        }
        self.file.into_inner()
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let Some(writer) = group.next_column()? else { break };
            column.write(writer)?;
        }
        group.close()?;
        self.buffered = 0;
        Ok(())
    }
}

/// Number of rows of a file. Fails if it is not a Parquet file.
pub(super) fn row_count(file: File) -> Result<u64> {
    let rows = SerializedFileReader::new(file)?.metadata().file_metadata().num_rows();
    Ok(u64::try_from(rows).unwrap_or_default())
}

fn schema(columns: &[Column]) -> Result<TypePtr> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            ColumnType::Integer => (PhysicalType::INT64, None),
            ColumnType::Real => (PhysicalType::DOUBLE, None),
            ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        field.build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder("mpwatch").with_fields(fields).build()?))
}

/// A column since the last row group: whether each row has a value (1) or not (0), and the values.
struct Buffer {
    known: Vec<i16>,
    values: Values,
}

enum Values {
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            ColumnType::Integer => Values::Integer(Vec::new()),
            ColumnType::Real => Values::Real(Vec::new()),
            ColumnType::Text => Values::Text(Vec::new()),
        };
        Self { known: Vec::new(), values }
    }

    fn push(&mut self, cell: Option<Cell>) -> Result<()> {
        self.known.push(i16::from(cell.is_some()));
        match (&mut self.values, cell) {
            (_, None) => {}
            (Values::Integer(all), Some(Cell::Integer(number))) => all.push(number),
            (Values::Real(all), Some(Cell::Real(number))) => all.push(number),
            (Values::Text(all), Some(Cell::Text(text))) => all.push(text.into_bytes().into()),
            (_, Some(other)) => {
                return Err(ParquetError::General(format!("{other:?} in a column of another type")));
            }
        }
        Ok(())
    }

    fn write(&mut self, mut to: SerializedColumnWriter<'_>) -> Result<()> {
        match &mut self.values {
            Values::Integer(all) => write_batch::<Int64Type>(&mut to, all, &self.known)?,
            Values::Real(all) => write_batch::<DoubleType>(&mut to, all, &self.known)?,
            Values::Text(all) => write_batch::<ByteArrayType>(&mut to, all, &self.known)?,
        }
        self.known.clear();
        to.close()
    }
}

fn write_batch<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    known: &[i16],
) -> Result<()> {
    to.typed::<T>().write_batch(values, Some(known), None)?;
    values.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use parquet::record::Field;

    use super::*;

    fn columns() -> [Column; 3] {
        [
            Column::new("bytes_sent", ColumnType::Integer),
            Column::new("j_per_gb", ColumnType::Real),
            Column::new("comm", ColumnType::Text),
        ]
    }

    fn row(number: i64) -> Row {
        let known = number % 3 != 0;
        vec![
            Some(Cell::Integer(number)),
            known.then_some(Cell::Real(0.5)),
            known.then(|| Cell::Text(format!("curl {number}"))),
        ]
    }

    fn written(rows: i64) -> File {
        let file = tempfile::tempfile().unwrap();
        let mut writer = TableWriter::new(file, &columns(), &[("mpwatch", "1.2.3")]).unwrap();
        (0..rows).for_each(|number| writer.push(row(number)).unwrap());
        let mut file = writer.finish().unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn rows_of_several_groups_are_read_back_and_unknown_values_are_null() {
        let rows = i64::try_from(ROWS_PER_GROUP).unwrap() + 7;
        let reader = SerializedFileReader::new(written(rows)).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let notes = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert_eq!((notes[0].key.as_str(), notes[0].value.as_deref()), ("mpwatch", Some("1.2.3")));
        for (found, number) in reader.get_row_iter(None).unwrap().zip(0..) {
            let found: Vec<Field> =
                found.unwrap().into_columns().into_iter().map(|(_, field)| field).collect();
            let expected = if number % 3 == 0 {
                [Field::Long(number), Field::Null, Field::Null]
            } else {
                [Field::Long(number), Field::Double(0.5), Field::Str(format!("curl {number}"))]
            };
            assert_eq!(found, expected);
        }
        assert_eq!(row_count(written(3)).unwrap(), 3);
        assert_eq!(row_count(written(0)).unwrap(), 0);
    }

    #[test]
    fn a_row_that_does_not_fit_is_refused() {
        let mut writer = TableWriter::new(Vec::new(), &columns(), &[]).unwrap();
        let short = writer.push(vec![None]).unwrap_err().to_string();
        assert!(short.contains("1 cells for 3 columns"), "{short}");
        let other = writer.push(vec![Some(Cell::Real(1.0)), None, None]).unwrap_err().to_string();
        assert!(other.contains("another type"), "{other}");
    }

    #[test]
    fn a_file_that_is_not_parquet_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"PAR1 is not enough").unwrap();
        assert!(row_count(file).is_err());
    }
}
