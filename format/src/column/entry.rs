//! What a block's directory says of one column.

use crate::bytes::{Malformed, Reader, Result, put_varint};
use crate::layout::{CODE_NULLABLE, TRANSFORM_CONST, TRANSFORM_FOLLOW, TRANSFORM_RECALL};

/// A column's entry in the directory of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u8,
    pub(crate) transform: u8,
    pub(crate) nullable: bool,
    /// Smallest and largest stored word (one more than the value where `nullable`).
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) len: u32,
    pub(crate) crc: u32,
    /// The columns that this one is derived from, by id; 0 for none.
    pub(crate) sources: [u8; 2],
}

impl Entry {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.id);
        out.push(self.transform | if self.nullable { CODE_NULLABLE } else { 0 });
        put_varint(out, self.min);
        if self.transform != TRANSFORM_CONST {
            put_varint(out, self.max.wrapping_sub(self.min));
            put_varint(out, u64::from(self.len));
            out.extend(self.crc.to_le_bytes());
        }
        match self.transform {
            TRANSFORM_FOLLOW => out.push(self.sources[0]),
            TRANSFORM_RECALL => out.extend(self.sources),
            _ => {}
        }
    }

    pub(crate) fn read(r: &mut Reader) -> Result<Self> {
        let id = r.u8()?;
        let code = r.u8()?;
        let mut e = Self {
            id,
            transform: code & !CODE_NULLABLE,
            nullable: code & CODE_NULLABLE != 0,
            min: r.varint()?,
            max: 0,
            len: 0,
            crc: 0,
            sources: [0; 2],
        };
        e.max = e.min;
        if e.transform != TRANSFORM_CONST {
            e.max = e.min.checked_add(r.varint()?).ok_or(Malformed("a column's maximum exceeds 64 bits"))?;
            e.len = u32::try_from(r.varint()?).map_err(|_| Malformed("a column is too long"))?;
            e.crc = r.u32()?;
        }
        match e.transform {
            TRANSFORM_FOLLOW => e.sources[0] = r.u8()?,
            TRANSFORM_RECALL => e.sources = [r.u8()?, r.u8()?],
            _ => {}
        }
        Ok(e)
    }

    /// The word of every row, if there is only one.
    pub(crate) fn constant(&self) -> Option<u64> {
        (self.transform == TRANSFORM_CONST).then(|| self.min.wrapping_sub(u64::from(self.nullable)))
    }

    /// Smallest and largest known word; none where every word is "not known".
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        match self.nullable {
            // "Not known" is stored as 0, below all words.
            true => self.max.checked_sub(1).map(|max| (self.min.saturating_sub(1), max)),
            false => Some((self.min, self.max)),
        }
    }

    /// Whether another column has to be decoded before this one.
    pub(crate) fn needs(&self, id: u8) -> bool {
        id != 0 && self.sources.contains(&id)
    }
}
