//! Little-endian numbers, varints and strings in byte slices.

/// The bytes ended, or a number did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

pub(crate) type Result<T> = std::result::Result<T, Malformed>;

const SHORT: Malformed = Malformed("it ends too early");

/// A reading position in a slice. Nothing is read past its end.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes that are left.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(SHORT)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// LEB128: seven bits a byte, lowest first, the top bit set on all but the last.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed("a varint exceeds 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed("a varint exceeds 64 bits"))
    }

    /// A varint that must not exceed `cap`.
    pub(crate) fn count(&mut self, cap: usize) -> Result<usize> {
        usize::try_from(self.varint()?).ok().filter(|&n| n <= cap).ok_or(Malformed("a count exceeds its cap"))
    }

    /// A varint length and as many bytes of UTF-8.
    pub(crate) fn string(&mut self) -> Result<&'a str> {
        let len = self.count(self.rest.len())?;
        std::str::from_utf8(self.bytes(len)?).map_err(|_| Malformed("a string is not UTF-8"))
    }
}

/// A signed number as an unsigned one: 0, −1, 1, −2 become 0, 1, 2, 3.
#[inline]
pub(crate) fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

/// What [`zigzag`] was made of.
#[inline]
pub(crate) fn unzigzag(n: u64) -> i64 {
    ((n >> 1) ^ (n & 1).wrapping_neg()).cast_signed()
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits are meant")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(value as u8);
}

pub(crate) fn put_len(out: &mut Vec<u8>, len: usize) {
    put_varint(out, len as u64);
}

pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_refuse_overflow() {
        for v in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = vec![];
            put_varint(&mut out, v);
            let mut r = Reader::new(&out);
            assert_eq!(r.varint(), Ok(v));
            assert!(r.is_empty());
            for cut in 0..out.len() {
                assert!(Reader::new(&out[..cut]).varint().is_err());
            }
        }
        assert!(Reader::new(&[0xff; 10]).varint().is_err());
        let mut two = [0x80; 10];
        two[9] = 2;
        assert!(Reader::new(&two).varint().is_err());
    }
}
