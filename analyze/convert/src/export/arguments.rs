//! What is known of a call, as members of a JSON object.

use ingero_format::catalog::{COPY_KINDS, Call};

use super::json::Object;
use super::names::name_of;

/// Writes what the call was given and what it gave back.
pub(crate) fn write_arguments(call: &Call, o: &mut Object) {
    if let Some(bytes) = call.bytes {
        o.number("bytes", bytes);
    }
    if let Some(copy) = call.copy {
        o.text("copy", name_of(COPY_KINDS, copy));
    }
    for (key, value) in [("stream", call.stream), ("ptr", call.ptr), ("ptr2", call.ptr2)] {
        if let Some(value) = value {
            o.address(key, value);
        }
    }
    if let Some(result) = call.result {
        o.signed("result", result);
    }
}
