//! The schema of a file that is being written: a kind is described before its first block.

use std::io::Write;

use super::{TraceWriter, compressed};
use crate::catalog::Kind;
use crate::column::Codec;
use crate::error::Error;
use crate::layout::{CHUNK_SCHEMA, FLAG_ZSTD};
use crate::schema::{self, KindSchema};

/// What the schema chunks of the file say so far.
#[derive(Default)]
pub(super) struct Described {
    pub(super) kinds: Vec<KindSchema>,
    pub(super) chunks: usize,
}

/// A file that was described anew so often gets all kinds at once: each time those before are told again.
const SCHEMAS: usize = 4;
/// zstd level of schemas: they are small, and few.
const SCHEMA_LEVEL: i32 = 19;

impl<W: Write> TraceWriter<W> {
    /// Sees to it that the file's schema has a kind of which a block is about to be written.
    pub(super) fn describe(&mut self, kind: Kind) -> Result<(), Error> {
        let known = |kinds: &[KindSchema], number: u16| kinds.iter().any(|k| k.number == number);
        if known(&self.described.kinds, kind as u16) {
            return Ok(());
        }
        // What waits will be written soon.
        let everything = self.described.chunks >= SCHEMAS;
        let waits = |number: u16| self.pending.iter().any(|p| p.rows() > 0 && p.kind.kind as u16 == number);
        let mut kinds = self.described.kinds.clone();
        for own in schema::own_schema() {
            if !known(&kinds, own.number) && (everything || own.number == kind as u16 || waits(own.number)) {
                kinds.push(own);
            }
        }
        kinds.sort_by_key(|k| k.number);
        self.put_schema(kinds)
    }

    /// Writes a schema of these kinds, among them all that were described before.
    pub(super) fn put_schema(&mut self, kinds: Vec<KindSchema>) -> Result<(), Error> {
        if kinds.is_empty() {
            return Ok(());
        }
        let raw = schema::write(&kinds);
        let packed = compressed(&mut Codec::new(SCHEMA_LEVEL)?, &raw);
        let flags = if packed.is_some() { FLAG_ZSTD } else { 0 };
        self.plain_chunk(CHUNK_SCHEMA, flags, kinds.len(), packed.as_ref().unwrap_or(&raw))?;
        self.described.kinds = kinds;
        self.described.chunks += 1;
        Ok(())
    }

    /// Tells a new file of all kinds that the recording has had so far.
    pub(super) fn describe_anew(&mut self) -> Result<(), Error> {
        let Described { kinds, .. } = std::mem::take(&mut self.described);
        self.put_schema(kinds)
    }
}
