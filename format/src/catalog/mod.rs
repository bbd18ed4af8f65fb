//! What a trace can hold: the event kinds and the functions that calls are made of.

mod column;
mod event;
mod function;
mod names;
mod row;
mod table;
#[cfg(test)]
mod tests;
mod unit;
mod word;

pub use column::{Column, EventKind, Shape};
pub use event::*;
pub use function::*;
pub use names::*;
pub use row::{CPU, Event, NO_CPU, TS};
pub use table::{FUNCTIONS, function_number};
pub use unit::Unit;
pub use word::*;
