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
    #[serde(default, borrow)]
    pub(super) ts: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) dur: Option<&'a RawValue>,
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

/// What is wrong with an event.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) what: String,
    /// Lines of the event above it.
    lines_above: u64,
    /// Where it stands in memory, within the event's text.
    address: Option<usize>,
}

impl Problem {
    /// What is wrong with an event as a whole.
    pub(super) fn whole(what: String) -> Self {
        Self { what, lines_above: 0, address: None }
    }

    /// What is wrong with a value of an event.
    pub(super) fn with(value: &RawValue, what: String) -> Self {
        Self { address: Some(value.get().as_ptr() as usize), ..Self::whole(what) }
    }

    fn of_json(e: &serde_json::Error) -> Self {
        let (said, place) = (e.to_string(), format!(" at line {} column {}", e.line(), e.column()));
        let what = said.strip_suffix(&place).unwrap_or(&said).to_owned();
        Self { lines_above: (e.line() as u64).saturating_sub(1), ..Self::whole(what) }
    }

    /// Lines of an event's text above the problem.
    fn lines_above(&self, text: &str) -> u64 {
        let above = self.address.and_then(|at| at.checked_sub(text.as_ptr() as usize)).and_then(|at| text.get(..at));
        above.map_or(self.lines_above, lines)
    }
}

fn lines(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// Reads a document and hands each event, with its number from 1, to `take`. What that refuses ends
/// the reading.
pub(super) fn read(text: Box<dyn BufRead>, may_be_cut: bool, take: &mut Take) -> Result<Head, String> {
    let place = Rc::new(Place { left: Cell::new(EVENT_BYTES), lines: Cell::new(0), last: Cell::new(0) });
    let text = Bounded { text, place: Rc::clone(&place) };
    let (mut head, mut refused) = (Head::default(), None);
    let mut json = serde_json::Deserializer::from_reader(text);
    let read = DocumentSeed { head: &mut head, place: &place, refused: &mut refused, take }.deserialize(&mut json);
    match read.and_then(|()| json.end()) {
        Ok(()) => {}
        Err(_) if refused.is_some() => return Err(refused.unwrap_or_default()),
        // Nothing tells where the text would be JSON again: what stood before is whole.
        Err(e) if may_be_cut && head.has_events => {
            head.cut = true;
            head.broken = (!e.is_eof()).then(|| e.to_string());
        }
        Err(e) => return Err(e.to_string()),
    }
    Ok(head)
}

/// Takes an event, or what is wrong with it; its number counts from 1.
pub(super) type Take<'t> = dyn FnMut(u64, Result<Event, Problem>) -> Result<(), Problem> + 't;

/// Text of which no more than a bounded part is read for one value.
struct Bounded {
    text: Box<dyn BufRead>,
    place: Rc<Place>,
}

/// How far the text is read. JSON is taken from it byte by byte, so this is where the reader of JSON is.
struct Place {
    /// Bytes that the value at hand may still have.
    left: Cell<u64>,
    /// Ends of lines so far.
    lines: Cell<u64>,
    /// The last byte.
    last: Cell<u8>,
}

impl Place {
    /// The line, from 1, on which a value ends that was just read.
    fn line_behind(&self, value: &str) -> u64 {
        // Where a number ends shows the byte behind it alone.
        let is_number = value.ends_with(|c: char| c.is_ascii_digit());
        self.lines.get() + 1 - u64::from(is_number && self.last.get() == b'\n')
    }
}

impl Read for Bounded {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.text.read(buf)?;
        let read = buf.get(..n).unwrap_or_default();
        self.place.lines.set(self.place.lines.get() + memchr::memchr_iter(b'\n', read).count() as u64);
        self.place.last.set(read.last().copied().unwrap_or(0));
        match self.place.left.get().checked_sub(n as u64) {
            Some(left) => self.place.left.set(left),
            None => return Err(io::Error::other(format!("one value takes more than {} MiB", EVENT_BYTES >> 20))),
        }
        Ok(n)
    }
}

struct DocumentSeed<'h, 't, 'f> {
    head: &'h mut Head,
    place: &'h Place,
    /// Why an event was not taken.
    refused: &'h mut Option<String>,
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
            self.place.left.set(EVENT_BYTES);
            self.head.is_kineto |= KINETO_KEYS.contains(&key.as_str());
            match key.as_str() {
                "baseTimeNanoseconds" => self.head.base_ns = map.next_value()?,
                "traceEvents" => {
                    let (found, refused) = (&mut self.head.has_events, &mut *self.refused);
                    map.next_value_seed(EventsSeed { found, place: self.place, refused, take: &mut *self.take })?;
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
    place: &'h Place,
    refused: &'h mut Option<String>,
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
            self.place.left.set(EVENT_BYTES);
            let text = text.get();
            let last_line = self.place.line_behind(text);
            let event = serde_json::from_str(text).map_err(|e| Problem::of_json(&e));
            if let Err(problem) = (self.take)(number, event) {
                let line = last_line - lines(text) + problem.lines_above(text);
                let said = format!("event {number}: {} at line {line}", problem.what);
                *self.refused = Some(said.clone());
                return Err(A::Error::custom(said));
            }
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
