//! Allocation flags: the kernel prints names, the format stores bits.

use std::collections::HashMap;

/// The bits that stand for the names, as kernel 6.18 has them. Composites come as the kernel's own
/// headers compose them. Older kernels number some bits otherwise; the stored word is by name, so
/// that equal names give equal bits whatever kernel printed them.
const NAMES: &[(&str, u64)] = &[
    ("__GFP_DMA", 1 << 0),
    ("__GFP_HIGHMEM", 1 << 1),
    ("__GFP_DMA32", 1 << 2),
    ("__GFP_MOVABLE", 1 << 3),
    ("__GFP_RECLAIMABLE", 1 << 4),
    ("__GFP_HIGH", 1 << 5),
    ("__GFP_IO", 1 << 6),
    ("__GFP_FS", 1 << 7),
    ("__GFP_ZERO", 1 << 8),
    ("__GFP_DIRECT_RECLAIM", 1 << 10),
    ("__GFP_KSWAPD_RECLAIM", 1 << 11),
    ("__GFP_WRITE", 1 << 12),
    ("__GFP_NOWARN", 1 << 13),
    ("__GFP_RETRY_MAYFAIL", 1 << 14),
    ("__GFP_NOFAIL", 1 << 15),
    ("__GFP_NORETRY", 1 << 16),
    ("__GFP_MEMALLOC", 1 << 17),
    ("__GFP_COMP", 1 << 18),
    ("__GFP_NOMEMALLOC", 1 << 19),
    ("__GFP_HARDWALL", 1 << 20),
    ("__GFP_THISNODE", 1 << 21),
    ("__GFP_ACCOUNT", 1 << 22),
    ("__GFP_ZEROTAGS", 1 << 23),
    ("__GFP_NO_OBJ_EXT", 1 << 24),
    ("__GFP_RECLAIM", RECLAIM),
    ("GFP_NOWAIT", 1 << 11 | 1 << 13),
    ("GFP_ATOMIC", 1 << 5 | 1 << 11),
    ("GFP_NOIO", RECLAIM),
    ("GFP_NOFS", RECLAIM | 1 << 6),
    ("GFP_KERNEL", KERNEL),
    ("GFP_KERNEL_ACCOUNT", KERNEL | 1 << 22),
    ("GFP_USER", USER),
    ("GFP_HIGHUSER", USER | 1 << 1),
    ("GFP_HIGHUSER_MOVABLE", USER | 1 << 1 | 1 << 3),
    ("GFP_TRANSHUGE_LIGHT", HUGE),
    ("GFP_TRANSHUGE", HUGE | 1 << 10),
    ("GFP_DMA", 1 << 0),
    ("GFP_DMA32", 1 << 2),
    ("none", 0),
];
const RECLAIM: u64 = 1 << 10 | 1 << 11;
const KERNEL: u64 = RECLAIM | 1 << 6 | 1 << 7;
const USER: u64 = KERNEL | 1 << 20;
const HUGE: u64 = (USER | 1 << 1 | 1 << 3 | 1 << 18 | 1 << 19 | 1 << 13) & !RECLAIM;

/// First bit for names that are not in the table; each new one takes the next lower bit.
const FIRST_OWN_BIT: u32 = 62;
/// Bits below this one are the kernel's.
const LAST_OWN_BIT: u32 = 32;

/// Turns printed flags into bits.
#[derive(Debug, Default)]
pub(crate) struct GfpFlags {
    words: HashMap<Vec<u8>, u64>,
    unknown: Vec<Vec<u8>>,
}

impl GfpFlags {
    /// The bits of a list like `GFP_USER|__GFP_ZERO`; `None` where it is no such list.
    pub(crate) fn bits(&mut self, text: &[u8]) -> Option<u64> {
        if let Some(bits) = self.words.get(text) {
            return Some(*bits);
        }
        let mut bits = 0;
        for name in text.split(|b| *b == b'|') {
            bits |= match NAMES.iter().find(|(n, _)| n.as_bytes() == name) {
                Some((_, bit)) => *bit,
                None if name.first().is_some_and(u8::is_ascii_digit) => super::text::word(name)?,
                None => self.own_bit(name)?,
            };
        }
        self.words.insert(text.to_vec(), bits);
        Some(bits)
    }

    fn own_bit(&mut self, name: &[u8]) -> Option<u64> {
        let is_name = !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let place = match self.unknown.iter().position(|n| n == name) {
            Some(place) => place,
            None if is_name => {
                self.unknown.push(name.to_vec());
                self.unknown.len() - 1
            }
            None => return None,
        };
        let bit = FIRST_OWN_BIT.checked_sub(u32::try_from(place).ok()?).filter(|b| *b >= LAST_OWN_BIT)?;
        Some(1 << bit)
    }

    /// Names that are not in the table with the bits that they were given here.
    pub(crate) fn own_names(&self) -> impl Iterator<Item = (String, u32)> {
        let names = self.unknown.iter().map(|n| super::text::escaped(n).into_owned());
        names.zip((LAST_OWN_BIT..=FIRST_OWN_BIT).rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_bits() {
        let mut gfp = GfpFlags::default();
        assert_eq!(gfp.bits(b"none"), Some(0));
        assert_eq!(gfp.bits(b"GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP"), Some(0x14_0dca));
        assert_eq!(gfp.bits(b"__GFP_IO|0x4000000"), Some(1 << 6 | 0x400_0000));
        assert_eq!(gfp.bits(b"__GFP_SKIP_KASAN|__GFP_IO"), Some(1 << 62 | 1 << 6));
        assert_eq!(gfp.bits(b"__GFP_OTHER"), Some(1 << 61));
        assert_eq!(gfp.bits(b"__GFP_OTHER"), Some(1 << 61));
        assert_eq!(gfp.own_names().map(|n| n.1).collect::<Vec<_>>(), [62, 61]);
        assert_eq!(gfp.bits(b"a b"), None);
        assert_eq!(gfp.bits(b""), None);
    }
}
