//! The columns of a table: told once for their names and types, then for the values of each row group.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{ColumnDescPtr, Type, TypePtr};

use super::indices::{self, Packer};
use super::words::{Word, Words};

/// Takes columns one after another. Those whose values are options may be unknown in a row.
pub(super) struct Columns<'a, 'f> {
    to: To<'a, 'f>,
}

#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is never stored")]
enum To<'a, 'f> {
    Types(Vec<TypePtr>),
    Group(Group<'a, 'f>),
}

struct Group<'a, 'f> {
    writer: SerializedRowGroupWriter<'f, File>,
    types: &'a [ColumnDescPtr],
    words: &'a Words<'a>,
    room: &'a mut Room,
    at: usize,
    done: Result<(), ParquetError>,
}

/// Room for the values of a column, kept from one to the next.
pub(super) struct Room {
    packer: Packer,
    numbers: Vec<i64>,
    reals: Vec<f64>,
    flags: Vec<bool>,
    levels: Vec<i16>,
    known: Vec<u32>,
    places: Vec<u32>,
    dictionary: Vec<u8>,
    /// By word: its place in the dictionary.
    place_of: Vec<u32>,
    /// The words of the dictionary.
    used: Vec<Word>,
}

/// A word that is not in the dictionary.
const NOWHERE: u32 = u32::MAX;

impl Room {
    pub(super) fn new(level: i32) -> Result<Self, ParquetError> {
        Ok(Self {
            packer: Packer::new(level)?,
            numbers: Vec::new(),
            reals: Vec::new(),
            flags: Vec::new(),
            levels: Vec::new(),
            known: Vec::new(),
            places: Vec::new(),
            dictionary: Vec::new(),
            place_of: Vec::new(),
            used: Vec::new(),
        })
    }
}

/// What `layout` tells of its columns.
pub(super) fn types(layout: impl FnOnce(&mut Columns)) -> Vec<TypePtr> {
    let mut columns = Columns { to: To::Types(Vec::new()) };
    layout(&mut columns);
    match columns.to {
        To::Types(types) => types,
        To::Group(_) => Vec::new(),
    }
}

/// Writes a row group of what `layout` tells.
pub(super) fn group<'f>(
    writer: SerializedRowGroupWriter<'f, File>,
    types: &[ColumnDescPtr],
    words: &Words,
    room: &mut Room,
    layout: impl FnOnce(&mut Columns<'_, 'f>),
) -> Result<(), ParquetError> {
    let mut columns = Columns { to: To::Group(Group { writer, types, words, room, at: 0, done: Ok(()) }) };
    layout(&mut columns);
    match columns.to {
        To::Group(group) => {
            group.done?;
            group.writer.close().map(drop)
        }
        To::Types(_) => Ok(()),
    }
}

impl Columns<'_, '_> {
    pub(super) fn signed(&mut self, name: &str, values: impl Iterator<Item = i64>) {
        self.column(name, Physical::INT64, None, Repetition::REQUIRED, |g| g.numbers(values));
    }

    pub(super) fn maybe_signed(&mut self, name: &str, values: impl Iterator<Item = Option<i64>>) {
        self.column(name, Physical::INT64, None, Repetition::OPTIONAL, |g| g.maybe_numbers(values));
    }

    /// Times and lengths: those of a sound trace fit.
    pub(super) fn ns(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        self.signed(name, values.map(u64::cast_signed));
    }

    pub(super) fn maybe_ns(&mut self, name: &str, values: impl Iterator<Item = Option<u64>>) {
        self.maybe_signed(name, values.map(|ns| ns.map(u64::cast_signed)));
    }

    pub(super) fn id(&mut self, name: &str, values: impl Iterator<Item = u32>) {
        self.signed(name, values.map(i64::from));
    }

    pub(super) fn maybe_id(&mut self, name: &str, values: impl Iterator<Item = Option<u32>>) {
        self.maybe_signed(name, values.map(|id| id.map(i64::from)));
    }

    pub(super) fn unsigned(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        let values = values.map(u64::cast_signed);
        self.column(name, Physical::INT64, unsigned_type(), Repetition::REQUIRED, |g| g.numbers(values));
    }

    pub(super) fn maybe_unsigned(&mut self, name: &str, values: impl Iterator<Item = Option<u64>>) {
        let values = values.map(|v| v.map(u64::cast_signed));
        self.column(name, Physical::INT64, unsigned_type(), Repetition::OPTIONAL, |g| g.maybe_numbers(values));
    }

    pub(super) fn flag(&mut self, name: &str, values: impl Iterator<Item = bool>) {
        self.column(name, Physical::BOOLEAN, None, Repetition::REQUIRED, |g| {
            g.room.flags.clear();
            g.room.flags.extend(values);
            write::<BoolType>(&mut g.writer, &g.room.flags, None)
        });
    }

    pub(super) fn maybe_real(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        self.column(name, Physical::DOUBLE, None, Repetition::OPTIONAL, |g| {
            let Room { reals, levels, .. } = &mut *g.room;
            split(values, reals, levels);
            write::<DoubleType>(&mut g.writer, reals, Some(levels))
        });
    }

    pub(super) fn text(&mut self, name: &str, values: impl Iterator<Item = Word>) {
        self.column(name, Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED, |g| {
            g.texts(values.map(Some), false)
        });
    }

    /// The same text in each of so many rows.
    pub(super) fn same(&mut self, name: &str, word: Word, rows: usize) {
        self.text(name, std::iter::repeat_n(word, rows));
    }

    pub(super) fn maybe_text(&mut self, name: &str, values: impl Iterator<Item = Option<Word>>) {
        self.column(name, Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::OPTIONAL, |g| {
            g.texts(values, true)
        });
    }

    fn column(
        &mut self,
        name: &str,
        physical: Physical,
        logical: Option<LogicalType>,
        repetition: Repetition,
        write: impl FnOnce(&mut Group) -> Result<(), ParquetError>,
    ) {
        match &mut self.to {
            To::Types(types) => {
                let made = Type::primitive_type_builder(name, physical)
                    .with_repetition(repetition)
                    .with_logical_type(logical)
                    .build();
                // Only a name or a type that does not go with the other could be refused: they do, by the calls above.
                types.extend(made.map(Arc::new));
            }
            To::Group(group) => {
                if group.done.is_ok() {
                    group.done = write(group);
                }
                group.at += 1;
            }
        }
    }
}

fn unsigned_type() -> Option<LogicalType> {
    Some(LogicalType::integer(64, false))
}

impl Group<'_, '_> {
    fn numbers(&mut self, values: impl Iterator<Item = i64>) -> Result<(), ParquetError> {
        self.room.numbers.clear();
        self.room.numbers.extend(values);
        write::<Int64Type>(&mut self.writer, &self.room.numbers, None)
    }

    fn maybe_numbers(&mut self, values: impl Iterator<Item = Option<i64>>) -> Result<(), ParquetError> {
        let Room { numbers, levels, .. } = &mut *self.room;
        split(values, numbers, levels);
        write::<Int64Type>(&mut self.writer, numbers, Some(levels))
    }

    fn texts(&mut self, values: impl Iterator<Item = Option<Word>>, maybe: bool) -> Result<(), ParquetError> {
        let Room { packer, known, places, dictionary, place_of, used, .. } = &mut *self.room;
        known.clear();
        places.clear();
        dictionary.clear();
        let mut last = None;
        for word in values {
            if maybe {
                known.push(word.is_some().into());
            }
            let Some(word) = word else { continue };
            if let Some((_, place)) = last.filter(|(before, _)| *before == word) {
                places.push(place);
                continue;
            }
            if place_of.len() <= word.index() {
                // A word that the values made up as they came.
                place_of.resize(self.words.len(), NOWHERE);
            }
            let Some(place) = place_of.get_mut(word.index()) else { continue };
            if *place == NOWHERE {
                *place = u32::try_from(used.len()).unwrap_or(NOWHERE);
                used.push(word);
            }
            places.push(*place);
            last = Some((word, *place));
        }
        let mut range: Option<(Word, Word)> = None;
        let below = |a: Word, b: Word| self.words.with(a, |a| self.words.with(b, |b| a < b));
        for &word in used.iter() {
            if let Some(place) = place_of.get_mut(word.index()) {
                *place = NOWHERE;
            }
            self.words.with(word, |text| indices::push_text(text, dictionary))?;
            let (low, high) = range.unwrap_or((word, word));
            range = Some((if below(word, low) { word } else { low }, if below(high, word) { word } else { high }));
        }
        let count = if maybe { known.len() } else { places.len() };
        let rows = indices::Rows { count, known: maybe.then_some(known), places };
        let column = self.types.get(self.at).cloned().ok_or_else(too_many)?;
        let range = range.map(|(low, high)| [low, high].map(|word| self.words.with(word, str::to_owned)));
        let (bytes, close) = indices::chunk(column, &rows, (dictionary, used.len()), range, packer)?;
        used.clear();
        self.writer.append_column(&bytes, close)
    }
}

fn too_many() -> ParquetError {
    ParquetError::General("more columns than types".into())
}

/// Values that are known, and by row whether they are.
fn split<T>(values: impl Iterator<Item = Option<T>>, known: &mut Vec<T>, levels: &mut Vec<i16>) {
    known.clear();
    levels.clear();
    for value in values {
        levels.push(value.is_some().into());
        known.extend(value);
    }
}

fn write<T: DataType>(
    writer: &mut SerializedRowGroupWriter<File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = writer.next_column()?.ok_or_else(too_many)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
