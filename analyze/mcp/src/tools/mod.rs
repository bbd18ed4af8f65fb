//! The tools: one file each, with its arguments, its answer and the words around it.

mod chains;
mod health;
mod knowledge;
mod part;
mod processes;
mod sql;
mod stacks;
mod stats;
mod timeline;

use std::sync::Arc;

use ingero_analyze::report::duration;
use rmcp::handler::server::tool::{schema_for_input, schema_for_output};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::figures::{Figures, Range};
use crate::names::MAX_CHARS;
use crate::problem::Problem;
use crate::recording::Opened;
use crate::shelf::Shelf;
use crate::words::{NAME_CHARS, clean, quoted_to};

pub(crate) use sql::limit_memory;

/// What a tool says.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// For people, and assistants that read.
    pub text: String,
    /// The same for programs, as the tool's output schema has it.
    pub structured: Value,
}

/// A tool: how it is called, and what it does.
trait TypedTool {
    const NAME: &'static str;
    const TITLE: &'static str;
    /// When to call it, and when another answers better.
    const DESCRIPTION: &'static str;
    type Args: DeserializeOwned + JsonSchema + 'static;
    type Output: Serialize + JsonSchema + 'static;

    /// The answer, and the same in words.
    fn answer(shelf: &Shelf, args: Self::Args) -> Result<(Self::Output, String), Problem>;
}

struct Row {
    name: &'static str,
    describe: fn() -> Tool,
    call: fn(&Shelf, JsonObject) -> Result<Answer, Problem>,
}

const fn row<T: TypedTool>() -> Row {
    Row { name: T::NAME, describe: describe::<T>, call: call_typed::<T> }
}

/// In the order in which an investigation goes through them.
const TOOLS: &[Row] = &[
    row::<health::Health>(),
    row::<stats::Stats>(),
    row::<chains::Chains>(),
    row::<processes::Breakdown>(),
    row::<timeline::Timeline>(),
    row::<stacks::Stacks>(),
    row::<sql::Sql>(),
];

/// All tools, as clients list them.
#[must_use]
pub fn list() -> Vec<Tool> {
    TOOLS.iter().map(|tool| (tool.describe)()).collect()
}

/// Whether there is a tool of this name.
#[must_use]
pub fn is_known(name: &str) -> bool {
    TOOLS.iter().any(|tool| tool.name == name)
}

/// Names of all tools, for messages.
#[must_use]
pub fn names() -> String {
    TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ")
}

/// Calls a tool with a JSON object of arguments.
///
/// # Errors
/// What is wrong, and what to call or give instead.
pub fn call(shelf: &Shelf, name: &str, arguments: Value) -> Result<Answer, Problem> {
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| Problem::new(format!("no tool is called {name:?}; there are {}", names())))?;
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        Value::Null => JsonObject::new(),
        other => return Err(Problem::new(format!("the arguments of {name} are an object, not {other}"))),
    };
    (tool.call)(shelf, arguments)
}

fn describe<T: TypedTool>() -> Tool {
    let annotations = ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    // Every argument type is an object: a schema that is none would show in the first test.
    let input = schema_for_input::<T::Args>().unwrap_or_else(|_| Arc::new(JsonObject::new()));
    Tool::new(T::NAME, T::DESCRIPTION, input)
        .with_title(T::TITLE)
        .with_raw_output_schema(schema_for_output::<T::Output>())
        .with_annotations(annotations)
}

fn call_typed<T: TypedTool>(shelf: &Shelf, arguments: JsonObject) -> Result<Answer, Problem> {
    let args = arguments_of::<T>(arguments)?;
    let (output, text) = T::answer(shelf, args)?;
    let structured = serde_json::to_value(output)
        .map_err(|e| Problem::new(format!("{} cannot put its answer into JSON: {e}", T::NAME)))?;
    Ok(Answer { text, structured })
}

/// Reads arguments. Assistants send numbers as texts, texts as numbers and empty texts for what is absent; where it is
/// plain what is meant, it is taken so.
fn arguments_of<T: TypedTool>(mut arguments: JsonObject) -> Result<T::Args, Problem> {
    let schema = describe::<T>().input_schema;
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = |name: &str| properties.and_then(|p| p.get(name));
    let takes = |name: &str, kind: &str| {
        let types = known(name).and_then(|p| p.get("type"));
        types.is_some_and(|t| t == kind || t.as_array().is_some_and(|list| list.iter().any(|one| one == kind)))
    };
    if let Some(name) = arguments.keys().find(|name| known(name).is_none()) {
        let names: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        return Err(Problem::new(format!("{} has no argument {name:?}; it has {}", T::NAME, names.join(", "))));
    }
    arguments.retain(|_, value| value.as_str().is_none_or(|text| !text.trim().is_empty()));
    for (name, value) in &mut arguments {
        let plain = match value {
            Value::String(text) if takes(name, "integer") => text.trim().parse::<u64>().ok().map(Value::from),
            Value::Number(number) if takes(name, "integer") => whole(number).map(Value::from),
            Value::Number(number) if takes(name, "string") && is_rounded(number) => {
                return Err(Problem::new(format!(
                    "{}: {name} cannot be {number}, which was rounded on its way: give a number with so many digits as a text, \
                     \"12345678.123456789s\"",
                    T::NAME
                )));
            }
            Value::Number(number) if takes(name, "string") => Some(Value::from(number.to_string())),
            Value::String(text) if takes(name, "array") => Some(listed(text)),
            _ => None,
        };
        if let Some(plain) = plain {
            *value = plain;
        }
    }
    let read = |arguments: &JsonObject| serde_json::from_value::<T::Args>(Value::Object(arguments.clone()));
    read(&arguments).map_err(|problem| {
        // None is required: the one that cannot be read alone is the one to name.
        let alone = |name: &String, value: &Value| JsonObject::from_iter([(name.clone(), value.clone())]);
        let wrong = arguments.iter().find(|(name, value)| read(&alone(name, value)).is_err());
        Problem::new(match wrong {
            None => format!("{}: {problem}", T::NAME),
            Some((name, value)) => {
                let what = known(name).and_then(|p| p.get("description")).and_then(Value::as_str).unwrap_or_default();
                format!("{}: {name} cannot be {}; it is: {what}", T::NAME, clean(&value.to_string(), NAME_CHARS))
            }
        })
    })
}

/// A list that comes as one text: as JSON, or with commas between its words. No list has words with commas.
fn listed(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Array(list)) => Value::Array(list),
        _ => text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect(),
    }
}

/// Whether a number of seconds has come as a double that tells no nanoseconds apart.
fn is_rounded(number: &serde_json::Number) -> bool {
    const EXACT_NS: f64 = 9_007_199_254_740_992.0;
    number.is_f64() && number.as_f64().is_some_and(|s| s.fract() != 0.0 && s.abs() * 1e9 > EXACT_NS)
}

/// A number such as 505.0, which stands for a whole one.
fn whole(number: &serde_json::Number) -> Option<u64> {
    let float = number.as_f64().filter(|f| number.as_u64().is_none() && f.fract() == 0.0 && (0.0..9e15).contains(f))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: a whole number below 9e15")]
    Some(float as u64)
}

/// The first line of an answer: which recording, which part of it.
fn heading(name: &str, figures: &Figures) -> String {
    let Range { from_ns, to_ns } = figures.range;
    let all = duration(figures.trace.duration_ns);
    let part = match (from_ns, to_ns) {
        (0, to) if to >= figures.trace.duration_ns => format!("all of its {all}"),
        (from, to) => format!("{} to {} of its {all}", seconds(from), seconds(to)),
    };
    let cut = if figures.trace.complete { "" } else { "; it was CUT OFF" };
    let lost = match figures.lost() {
        Some(lost) => format!("; LOST: {lost} events, see get_capture_health"),
        None => String::new(),
    };
    format!("Recording {}, {part}{cut}{lost}", quoted_to(name, MAX_CHARS))
}

/// What the recording cannot show, as lines.
fn notes(caveats: &[String]) -> impl Iterator<Item = String> {
    caveats.iter().map(|caveat| format!("note: {caveat}"))
}

/// A number with its noun.
fn counted(n: u64, noun: &str) -> String {
    let plural = match (n, noun.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {noun}{plural}", ingero_analyze::report::count(n))
}

/// An instant as an offset that `from` and `to` take.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}s")
}

/// A share in per cent, never rounded to all or nothing.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 1.0 => format!("{p:.2} %"),
        p if p > 99.0 && p < 100.0 => format!("{p:.2} %"),
        p => format!("{p:.0} %"),
    }
}

/// A length, or that it is not known.
fn maybe(ns: Option<u64>) -> String {
    ns.map_or_else(|| "unknown".to_owned(), duration)
}

/// A count, or that it is not known.
fn maybe_count(n: Option<u64>) -> String {
    n.map_or_else(|| "unknown".to_owned(), ingero_analyze::report::count)
}

/// What has to be said of something that was not found in a recording with parts missing.
fn absent(opened: &Opened) -> &'static str {
    let whole = opened.trace.complete() && opened.trace.damage().is_empty();
    if whole { "" } else { "; parts of the recording cannot be read, and it may be in them: see get_capture_health" }
}

/// Whether a process of this id is in a recording; else who it could be.
fn known_pid(opened: &Opened, pid: u32) -> Result<(), Problem> {
    if !opened.processes.with_pid(pid).is_empty() {
        return Ok(());
    }
    Err(Problem::new(match opened.trace.tasks().iter().find(|t| t.tid == pid && t.tid != 0) {
        Some(thread) => {
            format!("{pid} is a thread of process {0}: give pid={0}, or tid={pid} to get_timeline", thread.pid)
        }
        None => format!(
            "no process {pid} is in the recording; get_per_process_breakdown lists those that are{}",
            absent(opened)
        ),
    }))
}

/// Whether a thread of this id is in a recording.
fn known_tid(opened: &Opened, tid: u32) -> Result<(), Problem> {
    if opened.trace.tasks().iter().any(|t| t.tid == tid && t.tid != 0) {
        return Ok(());
    }
    Err(Problem::new(format!(
        "no thread {tid} is in the recording; get_timeline with pid shows the threads of a process, \
         get_per_process_breakdown lists the processes{}",
        absent(opened)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_says_when_to_call_it_and_what_it_gives() {
        let tools = list();
        assert_eq!(tools.len(), 7);
        for tool in tools {
            let description = tool.description.unwrap();
            assert!(description.contains("Call it") && description.contains("instead"), "{}: {description}", tool.name);
            assert!(description.len() < 1200, "{}", tool.name);
            for schema in [&tool.input_schema, tool.output_schema.as_ref().unwrap()] {
                assert_eq!(schema["type"], "object", "{}", tool.name);
                for (name, property) in schema["properties"].as_object().unwrap() {
                    let described = property.get("description").is_some() || property.get("$ref").is_some();
                    assert!(described, "{}: {name}", tool.name);
                }
            }
            assert_eq!(tool.annotations.unwrap().read_only_hint, Some(true));
        }
    }

    #[test]
    fn arguments_are_taken_as_they_are_meant() {
        let read = |json: Value| {
            let Value::Object(arguments) = json else { panic!() };
            arguments_of::<timeline::Timeline>(arguments)
        };
        let args =
            read(serde_json::json!({"tid": "505", "from": 12.5, "limit": 7.0, "only": "calls", "to": null})).unwrap();
        assert_eq!((args.tid, args.part.from.as_deref(), args.page.limit), (Some(505), Some("12.5"), Some(7)));
        let problem = |json| read(json).err().unwrap().to_string();
        assert!(
            problem(serde_json::json!({"thread": 5})).starts_with("get_timeline has no argument \"thread\"; it has ")
        );
        for (arguments, start) in [
            (serde_json::json!({"tid": "main", "limit": 3}), "get_timeline: tid cannot be \"main\"; it is: Thread id"),
            (serde_json::json!({"pid": 7, "limit": -1}), "get_timeline: limit cannot be -1; it is: Rows to show"),
            (serde_json::json!({"tid": 1e30}), "get_timeline: tid cannot be 1e+30; it is: "),
            (
                serde_json::json!({"only": ["sleep"]}),
                "get_timeline: only cannot be [\"sleep\"]; it is: What to show: states,",
            ),
        ] {
            let said = problem(arguments);
            assert!(said.starts_with(start), "{said}");
        }
        for text in ["calls,wakes", " calls , wakes,", "[\"calls\", \"wakes\"]"] {
            assert_eq!(listed(text), serde_json::json!(["calls", "wakes"]), "{text}");
            assert!(read(serde_json::json!({"only": text})).is_ok(), "{text}");
        }
        // As a text, or as a whole number of seconds, a time keeps its nanoseconds however long the recording is.
        let from = |value: Value| read(serde_json::json!({ "from": value })).map(|args| args.part.from);
        for (value, text) in [
            (serde_json::json!("9007199.254740993"), "9007199.254740993"),
            (serde_json::json!("9007199254740993ns"), "9007199254740993ns"),
            (serde_json::json!(9_007_199_254_740_993_u64), "9007199254740993"),
            (serde_json::json!(9_000_000.5), "9000000.5"),
        ] {
            assert_eq!(from(value).unwrap().as_deref(), Some(text));
        }
        let said = from(serde_json::json!(9_007_200.254_740_993)).err().unwrap().to_string();
        assert!(said.starts_with("get_timeline: from cannot be 9007200.25474") && said.contains("as a text"), "{said}");
        let empty = read(serde_json::json!({"tid": "", "pid": "5", "from": " "})).unwrap();
        assert_eq!((empty.tid, empty.part.from), (None, None));
    }

    #[test]
    fn times_can_be_given_back_as_they_are_shown() {
        assert_eq!([0, 1, 12_500_000_000, 3_000_000_000].map(seconds), ["0s", "0.000000001s", "12.5s", "3s"]);
        assert_eq!(ingero_replay::parse_duration(&seconds(12_345_678_901)), Ok(12_345_678_901));
        assert_eq!([0.0, 0.0001, 0.05, 0.999, 1.0].map(percent), ["0 %", "0.01 %", "5 %", "99.90 %", "100 %"]);
    }
}
