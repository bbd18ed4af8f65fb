//! The pictures' data as they lie in the page: named streams of numbers behind a head in JSON, deflated, as base64.
//!
//! | bytes | |
//! |---|---|
//! | 4 | length of the head, little-endian |
//! | so many | the head: one JSON object; its `streams` has `[offset, numbers]` by name, offsets count from the head's end |
//! | the rest | numbers, each 7 bits a byte, low ones first, the high bit set in all bytes but its last |

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};

/// Streams of numbers in the making.
#[derive(Debug, Default)]
pub(super) struct Pack {
    streams: BTreeMap<&'static str, (u64, Vec<u8>)>,
}

impl Pack {
    /// Adds a number to a stream.
    pub(super) fn push(&mut self, stream: &'static str, number: u64) {
        let (count, bytes) = self.streams.entry(stream).or_default();
        *count += 1;
        let mut rest = number;
        while rest >= 0x80 {
            #[expect(clippy::cast_possible_truncation, reason = "the low seven bits")]
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 128")]
        bytes.push(rest as u8);
    }

    /// The whole of it, as text that holds nothing but letters, digits, `+`, `/` and `=`.
    pub(super) fn finish(self, mut head: serde_json::Map<String, Value>) -> std::io::Result<String> {
        let mut offset = 0;
        let mut places = serde_json::Map::new();
        for (name, (count, bytes)) in &self.streams {
            places.insert((*name).to_owned(), json!([offset, count]));
            offset += bytes.len();
        }
        head.insert("streams".to_owned(), Value::Object(places));
        let head = serde_json::to_vec(&head)?;
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::new(7));
        let len = u32::try_from(head.len()).map_err(std::io::Error::other)?;
        packed.write_all(&len.to_le_bytes())?;
        packed.write_all(&head)?;
        for (_, bytes) in self.streams.values() {
            packed.write_all(bytes)?;
        }
        Ok(STANDARD.encode(packed.finish()?))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Read;

    /// Head and streams of a packed text, read as the page's script does.
    pub(in crate::html) fn unpack(text: &str) -> (Value, BTreeMap<String, Vec<u64>>) {
        let mut bytes = Vec::new();
        let packed = STANDARD.decode(text).unwrap();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let (len, rest) = bytes.split_at(4);
        let (head, numbers) = rest.split_at(u32::from_le_bytes(len.try_into().unwrap()) as usize);
        let head: Value = serde_json::from_slice(head).unwrap();
        let stream = |place: &Value| {
            let mut at = place[0].as_u64().unwrap() as usize;
            let number = |_| {
                let (mut number, mut shift) = (0, 0);
                loop {
                    let byte = numbers[at];
                    at += 1;
                    number |= u64::from(byte & 0x7f) << shift;
                    shift += 7;
                    if byte < 0x80 {
                        return number;
                    }
                }
            };
            (0..place[1].as_u64().unwrap()).map(number).collect()
        };
        let streams = head["streams"].as_object().unwrap().iter().map(|(k, v)| (k.clone(), stream(v))).collect();
        (head, streams)
    }

    #[test]
    fn what_is_packed_is_there_and_holds_no_markup() {
        let mut pack = Pack::default();
        for n in [0, 127, 128, 300, u64::from(u32::MAX), 1 << 53] {
            pack.push("times", n);
        }
        pack.push("a", 7);
        let mut head = serde_json::Map::new();
        head.insert("name".to_owned(), json!("</script><b>\u{202e}"));
        let text = pack.finish(head).unwrap();
        assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c)));
        let (head, streams) = unpack(&text);
        assert_eq!(head["name"], "</script><b>\u{202e}");
        assert_eq!(streams["times"], [0, 127, 128, 300, u64::from(u32::MAX), 1 << 53]);
        assert_eq!(streams["a"], [7]);
    }
}
