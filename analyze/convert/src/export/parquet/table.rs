//! A table on its way into a Parquet file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type as Physical, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescPtr, ColumnPath, Type, TypePtr};

use super::columns::{self, Columns, Room};
use super::words::Words;
use crate::error::Error;
use crate::output::private_file;

/// Rows of a row group: each is sorted by its first column, and a reader skips those whose range is not asked for.
pub(super) const GROUP_ROWS: usize = 1 << 17;
/// Numbers are packed before; a higher level gains little of them.
const ZSTD_LEVEL: i32 = 1;

/// What became of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// Smallest and largest value of its first column.
    pub(super) range: Option<(u64, u64)>,
}

/// A file that takes row group after row group.
pub(super) struct TableFile {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    types: Vec<ColumnDescPtr>,
    room: Room,
    rows: u64,
    range: Option<(u64, u64)>,
}

impl TableFile {
    /// A file for the columns that `layout` tells.
    pub(super) fn create(path: &Path, layout: impl FnOnce(&mut Columns)) -> Result<Self, Error> {
        let parquet = |source| Error::Parquet { path: path.to_owned(), source };
        let types = columns::types(layout);
        let is_number = |column: &&TypePtr| column.get_physical_type() == Physical::INT64;
        let numbers: Vec<_> = types.iter().filter(is_number).map(|column| column.name().to_owned()).collect();
        let schema = Type::group_type_builder("schema").with_fields(types).build().map_err(parquet)?;
        let sorted = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).map_err(parquet)?))
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_sorting_columns(Some(vec![sorted]))
            // A page for each column of a row group: each has a context of zstd.
            .set_data_page_row_count_limit(GROUP_ROWS)
            .set_write_batch_size(GROUP_ROWS)
            .set_created_by(format!("ingero-convert {}", env!("CARGO_PKG_VERSION")));
        for name in numbers {
            properties = properties.set_column_encoding(ColumnPath::from(name), Encoding::DELTA_BINARY_PACKED);
        }
        let file = private_file(path).map_err(|e| Error::io(format!("creating {}", path.display()), e))?;
        let writer =
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build())).map_err(parquet)?;
        let types = writer.schema_descr().columns().to_vec();
        let room = Room::new(ZSTD_LEVEL).map_err(parquet)?;
        Ok(Self { path: path.to_owned(), writer, types, room, rows: 0, range: None })
    }

    /// Writes a row group: as many rows, in order of the first column, which is from `range.0` to `range.1`.
    pub(super) fn group(
        &mut self,
        rows: usize,
        range: (u64, u64),
        words: &Words,
        layout: impl FnOnce(&mut Columns),
    ) -> Result<(), Error> {
        let Self { path, writer, types, room, .. } = self;
        let done: Result<(), ParquetError> =
            (|| columns::group(writer.next_row_group()?, types, words, room, layout))();
        done.map_err(|source| Error::Parquet { path: path.clone(), source })?;
        self.rows += rows as u64;
        let (low, high) = self.range.unwrap_or(range);
        self.range = Some((low.min(range.0), high.max(range.1)));
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Written, Error> {
        let Self { path, writer, rows, range, .. } = self;
        writer.close().map_err(|source| Error::Parquet { path: path.clone(), source })?;
        let bytes = path.metadata().map_err(|e| Error::io(path.display().to_string(), e))?.len();
        Ok(Written { rows, bytes, range })
    }
}

/// A row of a table.
pub(super) trait Row {
    /// What it is sorted by, its first column.
    fn key(&self) -> u64;
}

/// A table whose rows come one by one.
pub(super) struct Table<R, L> {
    file: TableFile,
    /// Tells the columns of rows.
    layout: L,
    held: Vec<R>,
    sorted: Vec<(u64, u32)>,
}

impl<R: Row + Copy, L: Fn(&[R], &mut Columns)> Table<R, L> {
    pub(super) fn new(path: &Path, layout: L) -> Result<Self, Error> {
        let file = TableFile::create(path, |columns| layout(&[], columns))?;
        Ok(Self { file, layout, held: Vec::new(), sorted: Vec::new() })
    }

    pub(super) fn push(&mut self, row: R, words: &Words) -> Result<(), Error> {
        self.held.push(row);
        if self.held.len() >= GROUP_ROWS { self.write(words) } else { Ok(()) }
    }

    /// Writes what is held as a row group.
    fn write(&mut self, words: &Words) -> Result<(), Error> {
        let Self { file, layout, held, sorted, .. } = self;
        if !held.is_sorted_by_key(Row::key) {
            sorted.clear();
            sorted.extend(held.iter().map(Row::key).zip(0..));
            sorted.sort_unstable();
            // In places that were counted above.
            *held = sorted.iter().map(|(_, at)| held[*at as usize]).collect();
        }
        if let (Some(first), Some(last)) = (held.first(), held.last()) {
            file.group(held.len(), (first.key(), last.key()), words, |columns| layout(held, columns))?;
        }
        held.clear();
        Ok(())
    }

    pub(super) fn finish(mut self, words: &Words) -> Result<Written, Error> {
        self.write(words)?;
        self.file.finish()
    }
}
