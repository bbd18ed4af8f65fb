//! What a trace in Perfetto's own format holds.

use std::io::Read;

/// The packets of a file, one behind another, where it has them packed.
pub(crate) fn unpacked(mut file: &[u8]) -> Vec<u8> {
    let mut packets = Vec::new();
    while !file.is_empty() {
        // Field 1 of the trace, a packet; field 50 of it, packets that are packed.
        let rest = file.strip_prefix(&[0x0a]).unwrap();
        let (len, rest) = varint(rest);
        let (packet, rest) = rest.split_at(len);
        let (len, packed) = varint(packet.strip_prefix(&[0x92, 0x03]).unwrap());
        assert_eq!(len, packed.len());
        flate2::read::ZlibDecoder::new(packed).read_to_end(&mut packets).unwrap();
        file = rest;
    }
    packets
}

fn varint(bytes: &[u8]) -> (usize, &[u8]) {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let number = bytes[..=end].iter().rev().fold(0, |number, byte| number << 7 | usize::from(byte & 0x7f));
    (number, &bytes[end + 1..])
}
