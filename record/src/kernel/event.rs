//! Ring bytes to records: the only place that knows how kind and length tell what a record is.

use bytemuck::AnyBitPattern;

use super::{Error, wire::*};

macro_rules! define {
    (
        fixed: [$($number:literal $kind:ident($record:ident) $name:literal,)*];
        own: [$($rest:tt)*];
    ) => {
        /// One record, as it lies in the ring.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum WireEvent<'a> {
            $(#[doc = concat!("See [`", stringify!($record), "`].")] $kind(&'a $record),)*
            /// A process runs a new program.
            Exec(&'a Exec),
            /// A probed function was entered: record, and as many argument words as there was room for.
            CallEntry(&'a CallEntry, &'a [u64]),
            /// A probed function returned: record, and its out value if there is one.
            CallReturn(&'a CallReturn, Option<u64>),
            /// A probed function was given a text; its entry follows.
            CallText(&'a CallText),
        }

        impl<'a> WireEvent<'a> {
            /// Time, thread, CPU and flags, which every record has.
            pub fn header(&self) -> &'a Header {
                match self {
                    $(Self::$kind(record) => &record.header,)*
                    Self::Exec(record) => &record.header,
                    Self::CallEntry(record, _) => &record.header,
                    Self::CallReturn(record, _) => &record.header,
                    Self::CallText(record) => &record.header,
                }
            }

            /// Interprets one record. `bytes` must be aligned to eight, as they are in the ring.
            pub fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
                let kind = bytes.get(std::mem::offset_of!(Header, kind)).copied();
                let event = kind.and_then(Kind::from_wire).and_then(|kind| match kind {
                    $(Kind::$kind => whole(bytes).map(Self::$kind),)*
                    Kind::Exec => whole(bytes).map(Self::Exec),
                    Kind::CallText => whole(bytes).map(Self::CallText),
                    Kind::CallEntry => {
                        let (head, rest) = split(bytes)?;
                        Some(Self::CallEntry(head, bytemuck::try_cast_slice(rest).ok()?))
                    }
                    Kind::CallReturn => {
                        let (head, rest): (&CallReturn, _) = split(bytes)?;
                        match (head.header.flags & return_flag::HAS_OUT != 0, bytemuck::try_cast_slice(rest).ok()?) {
                            (false, []) => Some(Self::CallReturn(head, None)),
                            (true, [out]) => Some(Self::CallReturn(head, Some(*out))),
                            _ => None,
                        }
                    }
                });
                event.ok_or_else(|| Error::Undecodable { kind: kind.unwrap_or(u8::MAX), len: bytes.len() })
            }
        }

        /// Length of each kind's record, where all of a kind are equally long.
        #[cfg(test)]
        fn fixed_sizes() -> Vec<(Kind, usize)> {
            vec![$((Kind::$kind, size_of::<$record>()),)* (Kind::Exec, size_of::<Exec>()), (Kind::CallText, size_of::<CallText>())]
        }
    };
}
ingero_ebpf_common::with_kinds!(define);

fn split<T: AnyBitPattern>(bytes: &[u8]) -> Option<(&T, &[u8])> {
    let (head, rest) = bytes.split_at_checked(size_of::<T>())?;
    Some((bytemuck::try_from_bytes(head).ok()?, rest))
}

fn whole<T: AnyBitPattern>(bytes: &[u8]) -> Option<&T> {
    match split(bytes)? {
        (record, []) => Some(record),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(parts: &[&[u8]]) -> Vec<u64> {
        parts.concat().chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    fn head(kind: Kind, flags: u8) -> Header {
        Header { ts_ns: 7, tid: 8, cpu: 1, kind: kind as u8, flags }
    }

    #[test]
    fn a_call_entry_carries_the_words_that_follow_it() {
        let entry = CallEntry { header: head(Kind::CallEntry, 0), tgid: 1, function: 2, sp: 3 };
        for count in [0, 2, 5] {
            let args: Vec<u64> = (10..10 + count).collect();
            let record = words(&[bytemuck::bytes_of(&entry), bytemuck::cast_slice(&args)]);
            let event = WireEvent::decode(bytemuck::cast_slice(&record)).unwrap();
            assert_eq!(event, WireEvent::CallEntry(&entry, &args));
        }
    }

    #[test]
    fn a_return_has_an_out_value_if_its_flags_say_so() {
        for (flags, out, expected) in [
            (0, vec![], Some(None)),
            (return_flag::HAS_OUT, vec![99_u64], Some(Some(99))),
            (return_flag::OUT_UNREAD, vec![], Some(None)),
            (return_flag::HAS_OUT, vec![], None),
            (0, vec![1], None),
        ] {
            let ret = CallReturn { header: head(Kind::CallReturn, flags), tgid: 1, function: 2, sp: 3, result: 4 };
            let record = words(&[bytemuck::bytes_of(&ret), bytemuck::cast_slice(&out)]);
            let decoded = WireEvent::decode(bytemuck::cast_slice(&record));
            match expected {
                Some(out) => assert_eq!(decoded.unwrap(), WireEvent::CallReturn(&ret, out)),
                None => assert!(decoded.is_err()),
            }
        }
    }

    #[test]
    fn any_other_length_or_kind_is_an_error() {
        for (kind, size) in fixed_sizes() {
            for len in (0..=304).step_by(8) {
                let mut record = vec![0_u64; len / 8];
                if let Some(word) = record.get_mut(1) {
                    *word = bytemuck::cast([0_u8, 0, 0, 0, 0, 0, kind as u8, 0]);
                }
                let decoded = WireEvent::decode(bytemuck::cast_slice(&record));
                // A record too short for a kind reads as kind 255; kind 0 is as long as a switch.
                assert_eq!(decoded.is_ok(), len == size, "{kind:?} of {len} bytes");
            }
        }
        let record = [0_u64, bytemuck::cast([0_u8, 0, 0, 0, 0, 0, Kind::COUNT as u8, 0]), 0];
        assert!(WireEvent::decode(bytemuck::cast_slice(&record)).is_err());
    }
}
