//! Looks at what the library reads of a perf.data: behind the head of a record of hardware traces (AUXTRACE) so many bytes follow
//! as it says, and the library makes room for them before it reads them, however many they are.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

/// `type`, `misc` and `size` of a record.
const HEAD_BYTES: usize = 8;
/// `PERF_RECORD_AUXTRACE`
const AUXTRACE: u32 = 71;
/// So many bytes of hardware traces are taken of what has no length, such as a pipe.
const MOST_BYTES: u64 = 256 << 20;

/// What the next bytes are.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The head of a record, of which so many bytes were read.
    Head(usize),
    /// The first word of an AUXTRACE record, of which so many bytes were read; so many come in the record behind it.
    Size(usize, u64),
    /// So many bytes that say nothing of what follows.
    Rest(u64),
}

/// The input of the library.
#[derive(Debug)]
pub(super) struct Watched<I> {
    input: I,
    bytes: u64,
    at: At,
    word: [u8; HEAD_BYTES],
    /// Whether records are read by now, one behind the other.
    begun: Rc<Cell<bool>>,
}

impl<I> Watched<I> {
    /// An input of so many bytes, 0 where that is not known. It looks at it once the cell is set: in front of a record.
    pub(super) fn new(input: I, bytes: u64) -> (Self, Rc<Cell<bool>>) {
        let begun = Rc::new(Cell::new(false));
        let bytes = if bytes == 0 { MOST_BYTES } else { bytes };
        (Self { input, bytes, at: At::Head(0), word: [0; HEAD_BYTES], begun: Rc::clone(&begun) }, begun)
    }

    /// Follows the records through what was read.
    fn look(&mut self, mut read: &[u8]) -> io::Result<()> {
        while !read.is_empty() {
            let (have, behind) = match self.at {
                At::Rest(left) => {
                    let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(read.len());
                    read = read.get(skipped..).unwrap_or_default();
                    let left = left - skipped as u64;
                    self.at = if left == 0 { At::Head(0) } else { At::Rest(left) };
                    continue;
                }
                At::Head(have) => (have, None),
                At::Size(have, behind) => (have, Some(behind)),
            };
            let taken = (HEAD_BYTES - have).min(read.len());
            let (word, rest) = read.split_at(taken);
            self.word.iter_mut().skip(have).zip(word).for_each(|(place, byte)| *place = *byte);
            read = rest;
            let have = have + taken;
            self.at = match behind {
                None if have < HEAD_BYTES => At::Head(have),
                Some(behind) if have < HEAD_BYTES => At::Size(have, behind),
                None => self.behind_head(),
                Some(behind) => At::Rest(behind.saturating_add(self.traces()?)),
            };
        }
        Ok(())
    }

    fn behind_head(&self) -> At {
        let [a, b, c, d, _, _, low, high] = self.word;
        let body = u64::from(u16::from_le_bytes([low, high])).saturating_sub(HEAD_BYTES as u64);
        match body.checked_sub(HEAD_BYTES as u64) {
            Some(behind) if u32::from_le_bytes([a, b, c, d]) == AUXTRACE => At::Size(0, behind),
            _ if body == 0 => At::Head(0),
            _ => At::Rest(body),
        }
    }

    /// So many bytes of hardware traces follow.
    fn traces(&self) -> io::Result<u64> {
        let bytes = u64::from_le_bytes(self.word);
        if bytes <= self.bytes {
            return Ok(bytes);
        }
        let problem = format!("claims {bytes} bytes of hardware traces, of {} at most", self.bytes);
        Err(io::Error::new(io::ErrorKind::InvalidData, problem))
    }
}

impl<I: Read> Read for Watched<I> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buf)?;
        if self.begun.get() {
            self.look(buf.get(..len).unwrap_or_default())?;
        }
        Ok(len)
    }
}

impl<I: Seek> Seek for Watched<I> {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        self.input.seek(pos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEAD_BYTES + body.len()).unwrap();
        [&kind.to_le_bytes()[..], &[0, 0], &size.to_le_bytes(), body].concat()
    }

    fn traces(claimed: u64, bytes: usize) -> Vec<u8> {
        let body = [&claimed.to_le_bytes()[..], &[7; 32]].concat();
        [record(AUXTRACE, &body), vec![9; bytes]].concat()
    }

    /// Reads all of it in portions of so many bytes.
    fn read(file: &[u8], portion: usize) -> io::Result<usize> {
        let (mut watched, begun) = Watched::new(file, file.len() as u64);
        begun.set(true);
        let mut buf = vec![0; portion];
        let mut all = 0;
        loop {
            match watched.read(&mut buf)? {
                0 => return Ok(all),
                len => all += len,
            }
        }
    }

    #[test]
    fn traces_that_the_file_cannot_have_are_refused_before_there_is_room_for_them() {
        let plain = [record(9, &[1; 40]), record(68, &[]), record(3, &[2; 5])].concat();
        let whole = [plain.clone(), traces(100, 100), plain.clone()].concat();
        let claims = [plain.clone(), traces(100, 100), plain, traces(1 << 46, 10)].concat();
        for portion in [1, 3, 8, 13, 4096] {
            assert_eq!(read(&whole, portion).unwrap(), whole.len(), "{portion}");
            let problem = read(&claims, portion).unwrap_err().to_string();
            assert!(problem.starts_with("claims 70368744177664 bytes of hardware traces"), "{problem}");
        }
        // What looks like such a record within another one is none.
        let within = record(9, &traces(1 << 46, 0));
        assert_eq!(read(&within, 16).unwrap(), within.len());
    }
}
