//! What a trace can hold: the event kinds and the functions that calls are made of.

mod event;
mod function;
mod word;

pub use event::*;
pub use function::*;
pub use word::*;
