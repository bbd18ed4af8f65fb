//! The kernel's own description of its types: `/sys/kernel/btf/vmlinux`.
//!
//! Programs carry no relocations; offsets are looked up here and handed to them as constants. Every access
//! is bounded: damaged bytes give an error or `None`, never a panic or an endless walk.

use std::ops::ControlFlow;

/// What is wrong with a BTF blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// Not BTF, or of the other byte order.
    #[error("no BTF header")]
    NoHeader,
    /// The header points outside of the blob.
    #[error("BTF section {section} ends at byte {end} of {len}")]
    Truncated {
        /// `types` or `strings`.
        section: &'static str,
        /// Where it would end.
        end: u64,
        /// Length of the blob.
        len: u64,
    },
    /// A type of unknown kind: its length is unknown, so nothing behind it can be read.
    #[error("BTF type {id} has unknown kind {kind}")]
    UnknownKind {
        /// Type id.
        id: usize,
        /// Kind number.
        kind: u32,
    },
}

const MAGIC: u16 = 0xeb9f;
const PTR: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const DATASEC: u32 = 15;
const TYPE_TAG: u32 = 18;
/// Bytes before the part that depends on the kind.
const HEAD_BYTES: usize = 12;
/// Structs nest and typedefs chain, but never this deep.
const DEPTH_LIMIT: u32 = 32;

/// Parsed BTF.
#[derive(Debug)]
pub(super) struct Btf {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Byte offset in `types` of each type, by id; id 0 is `void`.
    starts: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Type {
    start: usize,
    name: u32,
    kind: u32,
    /// Number of members, parameters or variables.
    count: usize,
    has_bitfields: bool,
    /// Size in bytes, or the id of another type.
    size_or_type: u32,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

impl Btf {
    /// Indexes a blob as the kernel gives it out.
    pub(super) fn parse(blob: &[u8]) -> Result<Self, BtfError> {
        let magic = blob.get(..2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        let header = |at| word(blob, at).ok_or(BtfError::NoHeader).map(u64::from);
        if magic != Some(MAGIC) {
            return Err(BtfError::NoHeader);
        }
        let header_len = header(4)?;
        let section = |name, start: u64, len: u64| {
            let (start, end) = (header_len + start, header_len + start + len);
            usize::try_from(start)
                .ok()
                .zip(usize::try_from(end).ok())
                .and_then(|(start, end)| blob.get(start..end))
                .map(<[u8]>::to_vec)
                .ok_or(BtfError::Truncated { section: name, end, len: blob.len() as u64 })
        };
        let mut btf = Self {
            types: section("types", header(8)?, header(12)?)?,
            strings: section("strings", header(16)?, header(20)?)?,
            starts: vec![usize::MAX],
        };
        let mut at = 0;
        while let Some(found) = btf.type_at(at) {
            let extra = match found.kind {
                1 | 14 | 17 => 4,
                3 => 12,
                STRUCT | UNION | DATASEC | 19 => 12 * found.count,
                ENUM | FUNC_PROTO => 8 * found.count,
                PTR | 7..=12 | 16 | TYPE_TAG => 0,
                kind => return Err(BtfError::UnknownKind { id: btf.starts.len(), kind }),
            };
            btf.starts.push(at);
            at += HEAD_BYTES + extra;
        }
        if at != btf.types.len() {
            let end = at.max(btf.types.len() + 1) as u64;
            return Err(BtfError::Truncated { section: "types", end, len: btf.types.len() as u64 });
        }
        Ok(btf)
    }

    fn type_at(&self, start: usize) -> Option<Type> {
        let info = word(&self.types, start.checked_add(4)?)?;
        Some(Type {
            start,
            name: word(&self.types, start)?,
            kind: info >> 24 & 0x1f,
            count: (info & 0xffff) as usize,
            has_bitfields: info >> 31 != 0,
            size_or_type: word(&self.types, start.checked_add(8)?)?,
        })
    }

    fn by_id(&self, id: u32) -> Option<Type> {
        self.type_at(*self.starts.get(id as usize)?)
    }

    fn has_name(&self, offset: u32, name: &str) -> bool {
        self.strings
            .get(offset as usize..)
            .is_some_and(|tail| tail.get(..name.len()) == Some(name.as_bytes()) && tail.get(name.len()) == Some(&0))
    }

    fn find(&self, kind: u32, name: &str) -> Option<(u32, Type)> {
        (1..self.starts.len() as u32).find_map(|id| {
            let found = self.by_id(id)?;
            (found.kind == kind && self.has_name(found.name, name)).then_some((id, found))
        })
    }

    /// Follows typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> Option<Type> {
        for _ in 0..DEPTH_LIMIT {
            let found = self.by_id(id)?;
            if !matches!(found.kind, TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG) {
                return Some(found);
            }
            id = found.size_or_type;
        }
        None
    }

    /// Bit offset and type of a member, those of nested anonymous structs included.
    fn member(&self, of: Type, name: &str, depth: u32) -> Option<(u32, u32)> {
        if depth == 0 || !matches!(of.kind, STRUCT | UNION) {
            return None;
        }
        let search = (0..of.count).try_for_each(|n| {
            let at = of.start + HEAD_BYTES + 12 * n;
            let (Some(member), Some(id), Some(place)) =
                (word(&self.types, at), word(&self.types, at + 4), word(&self.types, at + 8))
            else {
                return ControlFlow::Continue(());
            };
            let (bits, bitfield) =
                if of.has_bitfields { (place & 0xff_ffff, place >> 24 != 0) } else { (place, false) };
            if self.has_name(member, name) && !bitfield {
                return ControlFlow::Break((bits, id));
            }
            if self.has_name(member, "")
                && let Some((inner, id)) = self.resolve(id).and_then(|inner| self.member(inner, name, depth - 1))
                && let Some(bits) = bits.checked_add(inner)
            {
                return ControlFlow::Break((bits, id));
            }
            ControlFlow::Continue(())
        });
        search.break_value()
    }

    /// Byte offset of a field of a struct: `field("task_struct", "thread_info.cpu")`. `None` when there is no
    /// such field, or when it is a bit field, which has no address.
    pub(super) fn field(&self, of: &str, path: &str) -> Option<u32> {
        let (_, mut inside) = self.find(STRUCT, of)?;
        let mut bits = 0_u32;
        for name in path.split('.') {
            let (place, id) = self.member(inside, name, DEPTH_LIMIT)?;
            bits = bits.checked_add(place)?;
            // A last member may be of any type; one on the way is looked into.
            inside = self.resolve(id)?;
        }
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// Size of a struct in bytes.
    pub(super) fn size(&self, of: &str) -> Option<u32> {
        self.find(STRUCT, of).map(|(_, found)| found.size_or_type)
    }

    /// Value of an enumerator of an `enum`, 32 bits wide.
    pub(super) fn enumerator(&self, of: &str, name: &str) -> Option<u32> {
        let (_, found) = self.find(ENUM, of)?;
        (0..found.count).find_map(|n| {
            let at = found.start + HEAD_BYTES + 8 * n;
            self.has_name(word(&self.types, at)?, name).then(|| word(&self.types, at + 4))?
        })
    }

    /// Type id with which a program asks for a typed tracepoint, and the number of its arguments.
    pub(super) fn tracepoint(&self, name: &str) -> Option<(u32, usize)> {
        let (id, prototype) = self.prototype(name)?;
        // The first parameter is the tracepoint's own.
        Some((id, prototype.count.saturating_sub(1)))
    }

    /// Whether argument `n` of a typed tracepoint is a pointer.
    pub(super) fn takes_pointer(&self, tracepoint: &str, n: usize) -> bool {
        let kind = || {
            let (_, prototype) = self.prototype(tracepoint)?;
            let parameter = Some(n + 1).filter(|at| *at < prototype.count)?;
            self.resolve(word(&self.types, prototype.start + HEAD_BYTES + 8 * parameter + 4)?).map(|found| found.kind)
        };
        kind() == Some(PTR)
    }

    fn prototype(&self, tracepoint: &str) -> Option<(u32, Type)> {
        let (id, alias) = self.find(TYPEDEF, &format!("btf_trace_{tracepoint}"))?;
        let pointer = self.resolve(alias.size_or_type)?;
        let prototype = self.resolve(pointer.size_or_type)?;
        (pointer.kind == PTR && prototype.kind == FUNC_PROTO).then_some((id, prototype))
    }

    /// Type id with which a program asks for a kernel function.
    pub(super) fn function(&self, name: &str) -> Option<u32> {
        self.find(FUNC, name).map(|(id, _)| id)
    }

    /// Offset of a variable in each CPU's data.
    pub(super) fn per_cpu(&self, name: &str) -> Option<u32> {
        let (_, section) = self.find(DATASEC, ".data..percpu")?;
        (0..section.count).find_map(|n| {
            let at = section.start + HEAD_BYTES + 12 * n;
            let variable = self.by_id(word(&self.types, at)?)?;
            self.has_name(variable.name, name).then(|| word(&self.types, at + 4))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Vec<u8> {
        std::fs::read("/sys/kernel/btf/vmlinux").unwrap()
    }

    /// A struct `s { int pad; union { int a; struct { int x, b; } }; unsigned bit:1 }` by hand.
    fn small() -> Vec<u8> {
        let strings = b"\0int\0s\0pad\0a\0x\0b\0bit\0";
        let at = |name: &str| {
            let needle = [b"\0", name.as_bytes(), b"\0"].concat();
            strings.windows(needle.len()).position(|window| window == needle).unwrap() as u32 + 1
        };
        let info = |kind: u32, count: u32| kind << 24 | count;
        let types: Vec<u32> = [
            vec![at("int"), info(1, 0), 4, 32],
            vec![0, info(STRUCT, 2), 8, at("x"), 1, 0, at("b"), 1, 32],
            vec![0, info(UNION, 2), 8, at("a"), 1, 0, 0, 2, 0],
            vec![at("s"), info(STRUCT, 3) | 1 << 31, 16, at("pad"), 1, 0, 0, 3, 32, at("bit"), 1, 1 << 24 | 96],
        ]
        .concat();
        let mut blob = Vec::new();
        blob.extend(MAGIC.to_ne_bytes());
        blob.extend([1, 0]);
        for header in [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32] {
            blob.extend(header.to_ne_bytes());
        }
        blob.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
        blob.extend(strings);
        blob
    }

    #[test]
    fn finds_fields_through_anonymous_members() {
        let btf = Btf::parse(&small()).unwrap();
        assert_eq!(btf.field("s", "pad"), Some(0));
        assert_eq!(btf.field("s", "a"), Some(4));
        assert_eq!(btf.field("s", "b"), Some(8));
        assert_eq!(btf.field("s", "bit"), None, "a bit field has no address");
        assert_eq!(btf.field("s", "none"), None);
        assert_eq!(btf.field("s", "pad.x"), None);
    }

    #[test]
    fn survives_any_cut_and_any_flipped_byte() {
        let whole = small();
        for end in 0..whole.len() {
            assert!(Btf::parse(&whole[..end]).is_err());
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                if let Ok(btf) = Btf::parse(&damaged) {
                    let _ = (btf.field("s", "b"), btf.tracepoint("sched_switch"), btf.per_cpu("runqueues"));
                    let _ = (btf.size("s"), btf.enumerator("s", "b"), btf.takes_pointer("sched_switch", 1));
                }
            }
        }
    }

    #[test]
    fn knows_this_kernel() {
        let btf = Btf::parse(&kernel()).unwrap();
        assert!(btf.field("task_struct", "pid").is_some());
        assert!(btf.field("task_struct", "se.cfs_rq").is_some());
        assert!(btf.tracepoint("sched_switch").unwrap().1 >= 3);
        assert!(btf.takes_pointer("sched_switch", 1) && !btf.takes_pointer("sched_switch", 0));
        assert!(!btf.takes_pointer("sched_switch", 9) && !btf.takes_pointer("no_such_tracepoint", 0));
        assert_eq!(btf.enumerator("req_flag_bits", "__REQ_FAILFAST_DEV"), Some(8));
        assert!(btf.size("page") >= Some(32));
        assert_eq!(btf.tracepoint("no_such_tracepoint"), None);
    }
}
