//! Ring records on their way from the drain thread to the writer thread.

use crate::kernel::{Error, WireEvent, wire::*};

/// Records in one batch.
pub const BATCH_RECORDS: usize = 8192;
/// Room that a record takes: an entry with all its words. Few kinds are larger, and those are rare.
const RECORD_WORDS: usize = 1 + size_of::<CallEntry>() / 8 + SLOTS;
/// Room that a batch takes.
pub const BATCH_BYTES: usize = BATCH_RECORDS * RECORD_WORDS * 8;

/// Records as they lay in the rings, which need their room for the next ones: each behind a word that holds its length in
/// words.
///
/// One copy of the bytes is all that happens to a record on the drain thread. A table of decoded ones took a third of the
/// recorder's user time, most of it in waiting for the table's memory.
#[derive(Debug)]
pub struct Batch {
    words: Vec<u64>,
    records: usize,
    last_ns: u64,
}

impl Default for Batch {
    fn default() -> Self {
        Self { words: Vec::with_capacity(BATCH_BYTES / 8), records: 0, last_ns: 0 }
    }
}

impl Batch {
    /// Takes a record.
    ///
    /// # Errors
    /// When it does not consist of whole words, as all records do.
    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Result<(), Error> {
        let Some((words, first)) =
            bytemuck::try_cast_slice::<u8, u64>(record).ok().and_then(|words| Some((words, *words.first()?)))
        else {
            return Err(Error::Undecodable { kind: u8::MAX, len: record.len() });
        };
        self.words.push(words.len() as u64);
        self.words.extend_from_slice(words);
        self.records += 1;
        // Every record begins with its time stamp.
        self.last_ns = first;
        Ok(())
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Time of the last record.
    #[must_use]
    pub fn last_ns(&self) -> Option<u64> {
        (self.records > 0).then_some(self.last_ns)
    }

    /// Forgets all records and keeps their room.
    pub fn clear(&mut self) {
        self.words.clear();
        self.records = 0;
    }

    /// The records, in the order of their coming.
    pub fn iter(&self) -> impl Iterator<Item = Result<WireEvent<'_>, Error>> {
        let mut rest = self.words.as_slice();
        std::iter::from_fn(move || {
            let (len, behind) = rest.split_first()?;
            let (record, behind) = behind.split_at_checked(*len as usize)?;
            rest = behind;
            Some(WireEvent::decode(bytemuck::cast_slice(record)))
        })
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::bytes_of;

    use super::*;

    fn head(ts_ns: u64, kind: Kind) -> Header {
        Header { ts_ns, tid: 8, cpu: 1, kind: kind as u8, flags: 0 }
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let wakeup = Wakeup { header: head(1, Kind::Wakeup), tgid: 2, target_cpu: 3 };
        let entry = CallEntry { header: head(5, Kind::CallEntry), tgid: 1, function: 2, sp: 3 };
        let mut bytes: Vec<u64> = bytemuck::cast_slice(bytes_of(&entry)).to_vec();
        bytes.extend([10, 11, 12]);
        let mut batch = Batch::default();
        assert_eq!((batch.is_empty(), batch.last_ns()), (true, None));
        batch.push(bytes_of(&wakeup)).unwrap();
        batch.push(bytemuck::cast_slice(&bytes)).unwrap();
        assert_eq!((batch.len(), batch.last_ns()), (2, Some(5)));
        let events: Vec<_> = batch.iter().map(Result::unwrap).collect();
        assert_eq!(events, [WireEvent::Wakeup(&wakeup), WireEvent::CallEntry(&entry, &[10, 11, 12])]);
        batch.clear();
        assert_eq!((batch.len(), batch.last_ns(), batch.iter().count()), (0, None, 0));
    }

    #[test]
    fn what_is_no_record_is_an_error() {
        let mut batch = Batch::default();
        assert!(batch.push(&[]).is_err());
        assert!(batch.push(&[0; 12]).is_err());
        batch.push(bytemuck::cast_slice(&[7_u64, u64::MAX])).unwrap();
        assert!(batch.iter().next().unwrap().is_err());
    }
}
