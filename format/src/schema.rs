//! The schema in the file: what its kinds and columns are called and mean, so that a reader which
//! does not know a kind can still show its rows.

use crate::bytes::{Malformed, Reader, Result, put_len, put_string, put_varint};
use crate::catalog::{EVENTS, Kind, Unit};
use crate::dictionary::Allowance;
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

/// Reads a schema chunk; `allowance` is what it may still take.
pub(crate) fn read(bytes: &[u8], allowance: &mut Allowance) -> Result<Vec<KindSchema>> {
    let mut r = Reader::new(bytes);
    let mut kinds = Vec::new();
    for _ in 0..r.count(MAX_KINDS)? {
        let number = r.u16()?;
        let (name, doc) = (text(&mut r, allowance)?, text(&mut r, allowance)?);
        let mut columns = Vec::new();
        for _ in 0..r.count(MAX_COLUMNS)? {
            let (id, unit, nullable) = (r.u8()?, r.u8()?, r.u8()? & 1 != 0);
            let (name, doc) = (text(&mut r, allowance)?, text(&mut r, allowance)?);
            let names =
                (0..r.count(MAX_NAMES)?).map(|_| Ok((r.varint()?, text(&mut r, allowance)?))).collect::<Result<_>>()?;
            columns.push(ColumnSchema { id, name, unit, nullable, doc, names });
        }
        kinds.push(KindSchema { number, name, doc, columns });
    }
    // Later versions may append; what follows is theirs.
    if kinds.is_empty() { Err(Malformed("it names no event kind")) } else { Ok(kinds) }
}

fn text(r: &mut Reader, allowance: &mut Allowance) -> Result<String> {
    let text = r.string()?;
    allowance.entry(text.len())?;
    Ok(text.to_owned())
}

/// Adds kinds to those that a file has described so far. What is said last of a kind holds.
pub(crate) fn merge(schema: &mut Vec<KindSchema>, kinds: Vec<KindSchema>) -> Result<()> {
    for kind in kinds {
        if let Some(known) = schema.iter_mut().find(|k| k.number == kind.number) {
            *known = kind;
        } else if schema.len() < MAX_KINDS {
            schema.push(kind);
        } else {
            return Err(Malformed("there are more event kinds than the cap allows"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_round_trips() {
        let own = own_schema();
        let bytes = write(&own);
        assert_eq!(read(&bytes, &mut Allowance::new(0)).unwrap(), own);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut], &mut Allowance::new(0)).is_err());
        }
    }

    #[test]
    fn what_is_said_last_of_a_kind_holds() {
        let own = own_schema();
        let mut schema = own[..3].to_vec();
        let mut again = own[1..5].to_vec();
        again[0].name = "renamed".to_owned();
        merge(&mut schema, again).unwrap();
        let names: Vec<&str> = schema.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(names, [&own[0].name, "renamed", &own[2].name, &own[3].name, &own[4].name]);
    }

    /// A few bytes can be the compressed form of millions of named values, each of which takes memory.
    #[test]
    fn a_schema_takes_no_more_than_the_file_allows() {
        let mut kind = own_schema().remove(0);
        kind.columns.truncate(1);
        kind.columns[0].names = (0..60_000).map(|word| (word, String::new())).collect();
        let bytes = write(&[kind]);
        let mut allowance = Allowance::new(0);
        let taken = (0..1000).take_while(|_| read(&bytes, &mut allowance).is_ok()).count();
        assert!((60..80).contains(&taken), "{taken}");
    }
}
