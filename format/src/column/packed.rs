//! Several rows of few values in one byte, as digits of a number to the base of how many values there
//! are; the first row is the lowest digit.

/// Rows that go into one byte.
pub(super) fn rows_of(base: u8) -> usize {
    match base {
        ..=2 => 8,
        3 => 5,
        4 => 4,
        5..=6 => 3,
        _ => 2,
    }
}

/// Replaces `out` by the packed bytes. Every value is below `base`.
pub(super) fn pack(values: &[u8], base: u8, out: &mut Vec<u8>) {
    out.clear();
    let pack = |digits: &[u8]| digits.iter().rev().fold(0u8, |n, d| n.wrapping_mul(base).wrapping_add(*d));
    // A constant length lets the compiler unroll.
    macro_rules! by {
        ($rows:literal) => {{
            let (whole, rest) = values.as_chunks::<$rows>();
            out.extend(whole.iter().map(|digits| pack(digits)));
            if !rest.is_empty() {
                out.push(pack(rest));
            }
        }};
    }
    match rows_of(base) {
        8 => by!(8),
        5 => by!(5),
        4 => by!(4),
        3 => by!(3),
        _ => by!(2),
    }
}

/// Replaces `out` by the values of `rows` rows. Digits behind the last row are ignored.
pub(super) fn unpack(bytes: &[u8], base: u8, rows: usize, out: &mut Vec<u8>) {
    let per_byte = rows_of(base);
    let mut table = [[0u8; 8]; 256];
    for (byte, digits) in (0u8..=255).zip(&mut table) {
        let mut rest = byte;
        for digit in digits.iter_mut().take(per_byte) {
            *digit = rest % base;
            rest /= base;
        }
    }
    out.clear();
    macro_rules! by {
        ($rows:literal) => {
            out.extend(bytes.iter().flat_map(|&byte| {
                let digits = table[usize::from(byte)];
                let mut part = [0; $rows];
                part.copy_from_slice(&digits[..$rows]);
                part
            }))
        };
    }
    match per_byte {
        8 => by!(8),
        5 => by!(5),
        4 => by!(4),
        3 => by!(3),
        _ => by!(2),
    }
    out.truncate(rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_base_round_trips() {
        for base in 2..=16u8 {
            assert!(u32::from(base).pow(u32::try_from(rows_of(base)).unwrap()) <= 256);
            for rows in [1usize, 7, 8, 9, 1000] {
                let values: Vec<u8> = (0..rows).map(|i| u8::try_from(i * i % usize::from(base)).unwrap()).collect();
                let (mut bytes, mut back) = (vec![], vec![]);
                pack(&values, base, &mut bytes);
                assert_eq!(bytes.len(), rows.div_ceil(rows_of(base)));
                unpack(&bytes, base, rows, &mut back);
                assert_eq!(back, values);
            }
        }
    }
}
