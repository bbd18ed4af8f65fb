//! What comes from a client, before the protocol's own rules are applied to it.
//!
//! Clients differ in what they send where it does not matter: capabilities as `true` or as a list, `null` for what
//! is absent, no name of their own. Such things are put right here. What is no message at all is answered as
//! JSON-RPC asks for.

use rmcp::model::ClientCapabilities;
use serde_json::{Map, Value, json};

/// Bytes of one message at most.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// A message that cannot be taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    id: Value,
    code: i32,
    message: String,
}

/// The text is not JSON.
const PARSE_ERROR: i32 = -32700;
/// It is JSON and no message.
const INVALID_REQUEST: i32 = -32600;
/// Its parameters are not those of its method.
const INVALID_PARAMS: i32 = -32602;

impl Refusal {
    /// The answer that the client gets.
    #[must_use]
    pub fn answer(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.message}})
    }

    /// For a message that is longer than any may be.
    #[must_use]
    pub fn too_long() -> Self {
        let message = format!("a message has at most {MAX_MESSAGE_BYTES} bytes");
        Self { id: Value::Null, code: INVALID_REQUEST, message }
    }

    /// For a message that the protocol's types do not take.
    #[must_use]
    pub fn unfit(message: &Value, problem: &serde_json::Error) -> Self {
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        let known = method.starts_with("tools/") || method.starts_with("prompts/") || method == "initialize";
        let code = if known { INVALID_PARAMS } else { INVALID_REQUEST };
        let problem = crate::words::clean(&problem.to_string(), crate::words::SENTENCE_CHARS);
        Self { id: id_of(message), code, message: format!("this is no message of the protocol: {problem}") }
    }
}

/// The id of a request, as far as it is one.
fn id_of(message: &Value) -> Value {
    message.get("id").filter(|id| id.is_string() || id.is_i64() || id.is_u64()).cloned().unwrap_or(Value::Null)
}

/// Whether a message wants an answer.
#[must_use]
pub fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

/// Reads one message and puts right what does not matter.
///
/// # Errors
/// What to answer to something that is no message.
pub fn admit(bytes: &[u8]) -> Result<Value, Refusal> {
    let refuse = |id, code, message: &str| Err(Refusal { id, code, message: message.to_owned() });
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut message: Value = match serde_json::from_slice(bytes) {
        Ok(message) => message,
        Err(e) => {
            let place = format!("this is not JSON: at column {} of line {}", e.column(), e.line());
            return refuse(Value::Null, PARSE_ERROR, &place);
        }
    };
    let id = id_of(&message);
    let Some(fields) = message.as_object_mut() else {
        let problem = match message {
            Value::Array(_) => "batches are no part of the protocol: send one message at a time",
            _ => "a message is a JSON object",
        };
        return refuse(Value::Null, INVALID_REQUEST, problem);
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse(id, INVALID_REQUEST, "a message has \"jsonrpc\": \"2.0\"");
    }
    match fields.get("method") {
        Some(Value::String(_)) => {}
        Some(_) => return refuse(id, INVALID_REQUEST, "the method is a text"),
        // An answer to a question that this server never asks.
        None if fields.contains_key("result") || fields.contains_key("error") => return Ok(message),
        None => return refuse(id, INVALID_REQUEST, "the message has no method"),
    }
    if fields.get("id").is_some() && id.is_null() {
        return refuse(id, INVALID_REQUEST, "the id of a request is a text or a whole number");
    }
    match fields.get("params") {
        Some(Value::Null) => drop(fields.remove("params")),
        Some(Value::Object(_)) | None => {}
        Some(_) => return refuse(id, INVALID_PARAMS, "the parameters are an object"),
    }
    let starts = fields.get("method").and_then(Value::as_str) == Some("initialize");
    if starts {
        tidy_introduction(fields.entry("params").or_insert_with(|| json!({})));
    }
    if let Some(params) = fields.get_mut("params").and_then(Value::as_object_mut) {
        tidy_params(params);
    }
    if let Some(problem) = misfit(fields).filter(|_| !id.is_null()) {
        return refuse(id, INVALID_PARAMS, &problem);
    }
    Ok(message)
}

/// The parameter of a call of a tool or a prompt that cannot be taken, and what it has to be.
fn misfit(fields: &Map<String, Value>) -> Option<String> {
    let method = fields.get("method").and_then(Value::as_str)?;
    let what = match method {
        "tools/call" => "tool",
        "prompts/get" => "prompt",
        _ => return None,
    };
    let params = fields.get("params").and_then(Value::as_object);
    let shown = |value: &Value| crate::words::clean(&value.to_string(), crate::words::NAME_CHARS);
    match params.and_then(|p| p.get("name")) {
        Some(Value::String(_)) => {}
        None => return Some(format!("{method}: params.name is missing: the name of a {what}, as {what}s/list has it")),
        Some(odd) => {
            return Some(format!("{method}: params.name cannot be {}: it is the name of a {what}", shown(odd)));
        }
    }
    match params.and_then(|p| p.get("arguments")) {
        None | Some(Value::Object(_)) => None,
        Some(odd) => Some(format!("{method}: params.arguments cannot be {}: it is an object", shown(odd))),
    }
}

/// What a client says of itself: taken as far as it can be understood.
fn tidy_introduction(params: &mut Value) {
    let Some(params) = params.as_object_mut() else { return };
    let capabilities = params.entry("capabilities").or_insert_with(|| json!({}));
    tidy_capabilities(capabilities);
    if !params.get("protocolVersion").is_some_and(Value::is_string) {
        params.insert("protocolVersion".to_owned(), json!("2025-06-18"));
    }
    let client = params.get("clientInfo").and_then(Value::as_object);
    let text = |key: &str| client.and_then(|c| c.get(key)).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let client = json!({"name": text("name"), "version": text("version")});
    params.insert("clientInfo".to_owned(), client);
}

/// Keeps the capabilities that have a form that is known. None of them changes what this server does.
fn tidy_capabilities(capabilities: &mut Value) {
    match capabilities {
        Value::Object(all) => all.retain(|name, value| {
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            serde_json::from_value::<ClientCapabilities>(Value::Object(alone)).is_ok()
        }),
        odd => *odd = json!({}),
    }
}

/// The parameters that every method may have.
fn tidy_params(params: &mut Map<String, Value>) {
    match params.get_mut("_meta") {
        Some(Value::Object(meta)) => {
            for (name, value) in meta.iter_mut() {
                if name.ends_with("/clientCapabilities") {
                    tidy_capabilities(value);
                }
            }
            // A token for progress reports, of which there are none.
            let odd =
                meta.get("progressToken").is_some_and(|token| !(token.is_string() || token.is_i64() || token.is_u64()));
            if odd {
                meta.remove("progressToken");
            }
        }
        Some(_) => drop(params.remove("_meta")),
        None => {}
    }
    for name in ["arguments", "cursor"] {
        if params.get(name).is_some_and(Value::is_null) {
            params.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (Value, i64) {
        let answer = admit(text.as_bytes()).unwrap_err().answer();
        assert_eq!(answer["jsonrpc"], "2.0");
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
        (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap())
    }

    #[test]
    fn what_is_no_message_is_answered_by_the_book() {
        let deep = "[".repeat(1 << 20);
        for (text, id, code) in [
            ("", json!(null), -32700),
            ("{\"jsonrpc\":", json!(null), -32700),
            (deep.as_str(), json!(null), -32700),
            ("[]", json!(null), -32600),
            ("17", json!(null), -32600),
            ("{\"id\":1,\"method\":\"ping\"}", json!(1), -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1}", json!(1), -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"ping\"}", json!(null), -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":7}", json!("x"), -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":[1]}", json!(3), -32602),
        ] {
            assert_eq!(refused(text), (id, code), "{}", &text[..text.len().min(60)]);
        }
        assert!(admit(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}").is_err());
    }

    #[test]
    fn the_parameter_that_is_wrong_is_named() {
        let problem = |method: &str, params: Value| {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
            admit(message.as_bytes())
                .map_err(|refusal| refusal.answer()["error"]["message"].as_str().unwrap().to_owned())
        };
        for (method, params, expected) in [
            ("tools/call", json!({}), "tools/call: params.name is missing: the name of a tool, as tools/list has it"),
            ("tools/call", json!({"name": 7}), "tools/call: params.name cannot be 7: it is the name of a tool"),
            (
                "tools/call",
                json!({"name": "run_sql", "arguments": [1]}),
                "tools/call: params.arguments cannot be [1]: it is an object",
            ),
            ("prompts/get", json!({"name": []}), "prompts/get: params.name cannot be []: it is the name of a prompt"),
        ] {
            assert_eq!(problem(method, params).unwrap_err(), expected);
        }
        assert!(problem("tools/call", json!({"name": "run_sql", "arguments": null})).is_ok());
        assert!(problem("tools/list", json!({"name": 7})).is_ok());
    }

    #[test]
    fn odd_capabilities_are_left_out() {
        let hello = |params: Value| {
            let text = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
            let message = admit(text.as_bytes()).unwrap();
            let taken: Result<rmcp::model::ClientJsonRpcMessage, _> = serde_json::from_value(message.clone());
            assert!(taken.is_ok(), "{message}: {taken:?}");
            message["params"].clone()
        };
        let params = hello(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"roots": {"listChanged": true}, "sampling": true, "elicitation": [], "experimental": null,
                "extensions": "yes", "madeUp": {"x": 1}},
            "clientInfo": {"name": "odd", "version": "1", "icons": 7},
        }));
        assert_eq!(params["capabilities"]["roots"], json!({"listChanged": true}));
        for odd in ["sampling", "elicitation", "extensions"] {
            assert_eq!(params["capabilities"].get(odd), None, "{odd}");
        }
        assert_eq!(params["clientInfo"], json!({"name": "odd", "version": "1"}));
        for capabilities in [json!(null), json!(true), json!([]), json!("none")] {
            assert_eq!(hello(json!({"capabilities": capabilities}))["capabilities"], json!({}));
        }
        assert_eq!(hello(json!(null))["clientInfo"]["name"], "unknown");
    }

    #[test]
    fn what_is_absent_may_be_null() {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run_sql", "arguments": null, "_meta": {"progressToken": {"odd": 1}}}});
        let message = admit(call.to_string().as_bytes()).unwrap();
        assert_eq!(message["params"], json!({"name": "run_sql", "_meta": {}}));
        let list =
            admit(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":null}").unwrap();
        assert_eq!(list.get("params"), None);
    }
}
