//! The schema in the file: what its kinds and columns are called and mean, so that a reader which
//! does not know a kind can still show its rows.

use crate::bytes::{Malformed, Reader, Result, put_len, put_string, put_varint};
use crate::catalog::{EVENTS, Kind, Unit};
use crate::layout::{MAX_COLUMNS, MAX_KINDS, MAX_NAMES};

/// An event kind as a file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindSchema {
    /// Number of the kind.
    pub number: u16,
    /// Name.
    pub name: String,
    /// Meaning.
    pub doc: String,
    /// Columns in order of their ids.
    pub columns: Vec<ColumnSchema>,
}

impl KindSchema {
    /// The kind, if this version knows it.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_number(self.number)
    }
}

/// A column as a file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Number of the column within its kind.
    pub id: u8,
    /// Name.
    pub name: String,
    /// Code of its unit; see [`Unit::code`].
    pub unit: u8,
    /// Whether the word `u64::MAX` stands for "not known".
    pub nullable: bool,
    /// Meaning.
    pub doc: String,
    /// Named values of an enumeration.
    pub names: Vec<(u64, String)>,
}

impl ColumnSchema {
    /// Whether the column has this unit.
    #[must_use]
    pub fn is(&self, unit: Unit) -> bool {
        self.unit == unit.code()
    }

    /// The name of an enumeration's value.
    #[must_use]
    pub fn name_of(&self, word: u64) -> Option<&str> {
        self.names.iter().find(|(w, _)| *w == word).map(|(_, n)| n.as_str())
    }
}

/// The schema that this version writes.
#[must_use]
pub fn own_schema() -> Vec<KindSchema> {
    let text = |doc: &str| doc.split_whitespace().collect::<Vec<_>>().join(" ");
    EVENTS
        .iter()
        .map(|e| KindSchema {
            number: e.kind as u16,
            name: e.name.to_owned(),
            doc: text(e.doc),
            columns: e
                .columns
                .iter()
                .map(|c| ColumnSchema {
                    id: c.id,
                    name: c.name.to_owned(),
                    unit: c.unit.code(),
                    nullable: c.nullable,
                    doc: text(c.doc),
                    names: c.unit.names().iter().map(|&(w, n)| (w, n.to_owned())).collect(),
                })
                .collect(),
        })
        .collect()
}

pub(crate) fn write(kinds: &[KindSchema]) -> Vec<u8> {
    let mut out = Vec::new();
    put_len(&mut out, kinds.len());
    for kind in kinds {
        out.extend(kind.number.to_le_bytes());
        put_string(&mut out, &kind.name);
        put_string(&mut out, &kind.doc);
        put_len(&mut out, kind.columns.len());
        for c in &kind.columns {
            out.extend([c.id, c.unit, u8::from(c.nullable)]);
            put_string(&mut out, &c.name);
            put_string(&mut out, &c.doc);
            put_len(&mut out, c.names.len());
            for (word, name) in &c.names {
                put_varint(&mut out, *word);
                put_string(&mut out, name);
            }
        }
    }
    out
}

pub(crate) fn read(bytes: &[u8]) -> Result<Vec<KindSchema>> {
    let mut r = Reader::new(bytes);
    let mut kinds = Vec::new();
    for _ in 0..r.count(MAX_KINDS)? {
        let number = r.u16()?;
        let (name, doc) = (r.string()?.to_owned(), r.string()?.to_owned());
        let mut columns = Vec::new();
        for _ in 0..r.count(MAX_COLUMNS)? {
            let (id, unit, nullable) = (r.u8()?, r.u8()?, r.u8()? & 1 != 0);
            let (name, doc) = (r.string()?.to_owned(), r.string()?.to_owned());
            let names =
                (0..r.count(MAX_NAMES)?).map(|_| Ok((r.varint()?, r.string()?.to_owned()))).collect::<Result<_>>()?;
            columns.push(ColumnSchema { id, name, unit, nullable, doc, names });
        }
        kinds.push(KindSchema { number, name, doc, columns });
    }
    // Later versions may append; what follows is theirs.
    kinds.is_empty().then_some(()).map_or(Ok(kinds), |()| Err(Malformed("it names no event kind")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_round_trips() {
        let own = own_schema();
        let bytes = write(&own);
        assert_eq!(read(&bytes).unwrap(), own);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err());
        }
    }
}
