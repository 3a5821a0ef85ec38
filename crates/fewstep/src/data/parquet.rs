//! Texts in a column of a Parquet file, behind the feature `parquet`.

use std::{fs::File, path::Path, sync::Arc};

use parquet::{
    errors::ParquetError,
    file::reader::{FileReader, SerializedFileReader},
    record::{RowAccessor, reader::RowIter},
    schema::types::Type,
};

use super::Error;

/// The rows of a file.
pub(super) struct Rows(RowIter<'static>);

impl Rows {
    /// From row `start` on, of the column `field`.
    pub fn open(path: &Path, field: &str, start: u64) -> Result<Self, Error> {
        let refuse = |e: ParquetError| Error::Parquet {
            path: path.to_owned(),
            why: e.to_string(),
        };
        let file = File::open(path).map_err(Error::read(path))?;
        let reader = SerializedFileReader::new(file).map_err(refuse)?;
        let schema = reader.metadata().file_metadata().schema();
        let columns = schema.get_fields();
        let Some(column) = columns.iter().find(|column| column.name() == field) else {
            let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
            return Err(Error::Parquet {
                path: path.to_owned(),
                why: format!(
                    "no column {field:?} but {}; name the one with the text by --field",
                    names.join(", ")
                ),
            });
        };
        let projection = Type::group_type_builder(schema.name())
            .with_fields(vec![Arc::clone(column)])
            .build()
            .map_err(refuse)?;
        let mut rows = RowIter::from_file_into(Box::new(reader))
            .project(Some(projection))
            .map_err(refuse)?;
        for _ in 0..start {
            rows.next();
        }
        Ok(Self(rows))
    }

    /// The text of the next row, which is the one after row `before`.
    pub fn next(
        &mut self,
        path: &Path,
        before: u64,
        limit: usize,
    ) -> Result<Option<String>, Error> {
        let refuse = |e: ParquetError| Error::Record {
            path: path.to_owned(),
            line: before + 1,
            why: e.to_string(),
        };
        let Some(row) = self.0.next() else {
            return Ok(None);
        };
        let row = row.map_err(refuse)?;
        let text = row.get_string(0).map_err(refuse)?;
        if text.len() > limit {
            return Err(Error::TooLong {
                path: path.to_owned(),
                line: before + 1,
                limit,
            });
        }
        Ok(Some(text.clone()))
    }
}
