//! The document: its events one after the other, never all of it at once.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Bytes of one event, or of one value beside the events, at most.
const EVENT_BYTES: u64 = 64 << 20;

/// What stands beside the events.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// Times of events count from here, Unix nanoseconds.
    pub(super) base_ns: u64,
    /// Whether it has keys that PyTorch's profiler alone writes.
    pub(super) is_kineto: bool,
    /// Whether there is a list of events at all.
    pub(super) has_events: bool,
    /// Whether the text ended before the document did, or is none from somewhere on.
    pub(super) cut: bool,
    /// Where and how it is none from there on.
    pub(super) broken: Option<String>,
    /// Rank and world size of a distributed job.
    pub(super) rank: Option<(u64, Option<u64>)>,
    /// Names of the GPUs.
    pub(super) devices: Vec<String>,
}

/// Keys of a profile that no other Chrome trace has.
const KINETO_KEYS: &[&str] =
    &["schemaVersion", "baseTimeNanoseconds", "deviceProperties", "trace_id", "distributedInfo", "record_shapes"];

/// An event as the document has it.
#[derive(serde::Deserialize)]
pub(super) struct Event<'a> {
    #[serde(default, borrow)]
    pub(super) ph: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) cat: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(default)]
    pub(super) pid: Value,
    #[serde(default)]
    pub(super) tid: Value,
    pub(super) ts: Option<Box<RawValue>>,
    pub(super) dur: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) args: Args,
}

/// Some writers say null where there are none.
fn or_none<'de, D: Deserializer<'de>>(args: D) -> Result<Args, D::Error> {
    Option::<Args>::deserialize(args).map(Option::unwrap_or_default)
}

/// The arguments that matter.
#[derive(Default, serde::Deserialize)]
pub(super) struct Args {
    #[serde(default, rename = "External id", alias = "external id")]
    pub(super) external_id: Value,
    #[serde(default)]
    pub(super) correlation: Value,
    #[serde(default)]
    pub(super) device: Value,
    #[serde(default)]
    pub(super) stream: Value,
    #[serde(default)]
    pub(super) bytes: Value,
    #[serde(default)]
    pub(super) name: Value,
}

/// Reads a document and hands each event, with its number from 1, to `take`. What that refuses ends
/// the reading.
pub(super) fn read(text: Box<dyn BufRead>, may_be_cut: bool, take: &mut Take) -> serde_json::Result<Head> {
    let left = Rc::new(Cell::new(EVENT_BYTES));
    let text = Bounded { text, left: Rc::clone(&left) };
    let mut head = Head::default();
    let mut json = serde_json::Deserializer::from_reader(text);
    let read = DocumentSeed { head: &mut head, left: &left, take }.deserialize(&mut json);
    match read.and_then(|()| json.end()) {
        // Nothing tells where the text would be JSON again: what stood before is whole.
        Err(e) if may_be_cut && head.has_events => {
            head.cut = true;
            head.broken = (!e.is_eof()).then(|| e.to_string());
        }
        other => other?,
    }
    Ok(head)
}

/// Takes an event, or what is wrong with it; its number counts from 1.
pub(super) type Take<'t> = dyn FnMut(u64, Result<Event, String>) -> Result<(), String> + 't;

/// Text of which no more than a bounded part is read for one value.
struct Bounded {
    text: Box<dyn BufRead>,
    left: Rc<Cell<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.text.read(buf)?;
        match self.left.get().checked_sub(n as u64) {
            Some(left) => self.left.set(left),
            None => return Err(io::Error::other(format!("one value takes more than {} MiB", EVENT_BYTES >> 20))),
        }
        Ok(n)
    }
}

struct DocumentSeed<'h, 't, 'f> {
    head: &'h mut Head,
    left: &'h Cell<u64>,
    take: &'t mut Take<'f>,
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_, '_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with traceEvents")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.left.set(EVENT_BYTES);
            self.head.is_kineto |= KINETO_KEYS.contains(&key.as_str());
            match key.as_str() {
                "baseTimeNanoseconds" => self.head.base_ns = map.next_value()?,
                "traceEvents" => {
                    let found = &mut self.head.has_events;
                    map.next_value_seed(EventsSeed { found, left: self.left, take: &mut *self.take })?;
                }
                "distributedInfo" => {
                    let info: Value = map.next_value()?;
                    self.head.rank = info["rank"].as_u64().map(|rank| (rank, info["world_size"].as_u64()));
                }
                "deviceProperties" => {
                    let list: Value = map.next_value()?;
                    let names = list.as_array().into_iter().flatten().filter_map(|d| d["name"].as_str());
                    self.head.devices = names.map(str::to_owned).collect();
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct EventsSeed<'h, 't, 'f> {
    /// Set where there is a list.
    found: &'h mut bool,
    left: &'h Cell<u64>,
    take: &'t mut Take<'f>,
}

impl<'de> DeserializeSeed<'de> for EventsSeed<'_, '_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventsSeed<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of events")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        *self.found = true;
        let mut number = 0;
        // As text first: one whose values are not what they should be is an event that cannot be read, no more.
        while let Some(text) = seq.next_element::<Box<RawValue>>()? {
            number += 1;
            self.left.set(EVENT_BYTES);
            let event = serde_json::from_str(text.get()).map_err(|e| e.to_string());
            (self.take)(number, event).map_err(|problem| A::Error::custom(format!("event {number}: {problem}")))?;
        }
        Ok(())
    }
}

/// Nanoseconds of a number of microseconds with a fraction, exact: a double would not hold them.
pub(super) fn parse_us(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected microseconds from 0 up, found {text:?}");
    // Some writers put times in quotes, and large ones in exponents.
    let number = text.trim_matches('"');
    if number.contains(['e', 'E']) {
        let value: f64 = number.parse().map_err(|_| wrong())?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "held against its bounds")]
        return if (0.0..9e15).contains(&value) { Ok((value * 1e3).round() as u64) } else { Err(wrong()) };
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let mut ns = 0;
    for at in 0..3 {
        ns = ns * 10 + fraction.as_bytes().get(at).map_or(0, |b| u64::from(b - b'0'));
    }
    whole.checked_mul(1000).and_then(|w| w.checked_add(ns)).filter(|ns| *ns < 1 << 62).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_read_exactly() {
        let ns = |text: &str| parse_us(text).ok();
        assert_eq!(ns("5176006014659.912"), Some(5_176_006_014_659_912));
        assert_eq!(ns("36.9"), Some(36_900));
        assert_eq!(ns("0"), Some(0));
        assert_eq!(ns("1.0009"), Some(1_000));
        assert_eq!(ns("\"12.5\""), Some(12_500));
        assert_eq!(ns("1e3"), Some(1_000_000));
        for text in ["-1", "null", "", ".5", "1.x", "99999999999999999999", "1e99", "NaN"] {
            assert_eq!(ns(text), None, "{text}");
        }
    }
}
