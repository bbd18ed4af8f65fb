//! Several rows of few values in one byte, as digits of a number to the base of how many values there
//! are; the first row is the lowest digit.

use super::words::fit;

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
    // One multiplication adds up all digits of a byte in the uppermost byte of the product. Nothing is carried
    // into it: what is below it is less than the base to the power of the digits, which fits a byte.
    let rows = rows_of(base);
    let mut factor = [0u8; 8];
    let mut power = 1u8;
    for place in factor.iter_mut().rev().take(rows) {
        *place = power;
        power = power.wrapping_mul(base);
    }
    let factor = u64::from_le_bytes(factor);
    let pack = |digits: [u8; 8]| (u64::from_le_bytes(digits).wrapping_mul(factor) >> 56) as u8;
    let short = |digits: &[u8]| {
        let mut padded = [0; 8];
        padded.iter_mut().zip(digits).for_each(|(to, &digit)| *to = digit);
        pack(padded)
    };
    // A constant length lets the compiler unroll.
    macro_rules! by {
        ($rows:literal) => {{
            let (whole, rest) = values.as_chunks::<$rows>();
            out.extend(whole.iter().map(|digits| {
                let mut padded = [0; 8];
                padded[..$rows].copy_from_slice(digits);
                pack(padded)
            }));
            if !rest.is_empty() {
                out.push(short(rest));
            }
        }};
    }
    match rows {
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
    fit(out, bytes.len() * per_byte);
    macro_rules! by {
        ($rows:literal) => {
            for (part, &byte) in out.as_chunks_mut::<$rows>().0.iter_mut().zip(bytes) {
                part.copy_from_slice(&table[usize::from(byte)][..$rows]);
            }
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
