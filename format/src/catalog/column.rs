//! The description of a column and of an event kind.

use super::event::Kind;
use super::unit::Unit;

/// What the writer may expect of a column's values. It decides speed and size, never meaning: each
/// encoded column says in its block how it was encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Few distinct values in a block.
    Few,
    /// Values without a pattern.
    Plain,
    /// Close to the value of the row before.
    Near,
    /// Never falls within the rows of one CPU.
    Rising,
    /// Sorted, in long runs.
    Runs,
    /// Equal to what another column (by id) held in the row before on the same CPU.
    Follows(u8),
    /// Often what this column held in the last row with the same words in one or two other columns
    /// (by id; 0 for no second one).
    Recalls(u8, u8),
}

/// One column of an event kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Number of the column within its kind; never reused.
    pub id: u8,
    /// Name in the schema and in every table that is made of it.
    pub name: &'static str,
    /// What the numbers are.
    pub unit: Unit,
    /// Whether [`super::NULL`] may stand for "not known".
    pub nullable: bool,
    /// What the writer may expect.
    pub shape: Shape,
    /// Meaning, in one or two sentences.
    pub doc: &'static str,
}

/// The description of one event kind.
#[derive(Debug, PartialEq, Eq)]
pub struct EventKind {
    /// Number in the file; never reused.
    pub kind: Kind,
    /// Name in the schema.
    pub name: &'static str,
    /// Meaning, in one or two sentences.
    pub doc: &'static str,
    /// All columns, `ts_ns` and `cpu` first, in order of their ids.
    pub columns: &'static [Column],
}
