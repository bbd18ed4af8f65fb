//! Texts by number: those of the trace, and words of our own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroU32;

use ingero_format::Trace;
use ingero_format::catalog::{FuncId, StrId};

/// The number of a text, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Word(NonZeroU32);

impl Word {
    fn new(number: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(number))
    }

    /// Its number, from 0.
    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// All texts that columns may hold.
pub(super) struct Words<'t> {
    trace: &'t Trace,
    functions_from: u32,
    own_from: u32,
    own: RefCell<Own>,
}

#[derive(Default)]
struct Own {
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl<'t> Words<'t> {
    pub(super) fn new(trace: &'t Trace) -> Self {
        let len = |n: usize| u32::try_from(n).unwrap_or(u32::MAX / 4);
        let functions_from = len(trace.strings().len());
        let own_from = functions_from + len(trace.functions().len());
        Self { trace, functions_from, own_from, own: RefCell::default() }
    }

    /// A string of the trace.
    pub(super) fn string(&self, id: StrId) -> Word {
        if id.0 < self.functions_from { Word::new(id.0) } else { self.own(self.trace.string(id)) }
    }

    /// A function's symbol.
    pub(super) fn function(&self, id: FuncId) -> Option<Word> {
        let number = self.functions_from.checked_add(id.0)?;
        (number < self.own_from).then(|| Word::new(number))
    }

    /// A word of our own.
    pub(super) fn own(&self, text: &str) -> Word {
        let mut own = self.own.borrow_mut();
        if let Some(number) = own.numbers.get(text) {
            return Word::new(*number);
        }
        let number = self.own_from + u32::try_from(own.texts.len()).unwrap_or(0);
        own.texts.push(text.to_owned());
        own.numbers.insert(text.to_owned(), number);
        Word::new(number)
    }

    /// Words of our own for all values of an enumeration.
    pub(super) fn list(&self, names: &[(u64, &str)]) -> Vec<(u64, Word)> {
        names.iter().map(|(value, name)| (*value, self.own(name))).collect()
    }

    /// How many there are so far: the number of every word is below.
    pub(super) fn len(&self) -> usize {
        self.own_from as usize + self.own.borrow().texts.len()
    }

    /// Hands out a text.
    pub(super) fn with<T>(&self, word: Word, take: impl FnOnce(&str) -> T) -> T {
        let number = u32::try_from(word.index()).unwrap_or(u32::MAX);
        if number < self.functions_from {
            take(self.trace.string(StrId(number)))
        } else if number < self.own_from {
            take(self.trace.function(FuncId(number - self.functions_from)).map_or("", |f| f.symbol.as_str()))
        } else {
            take(self.own.borrow().texts.get((number - self.own_from) as usize).map_or("", String::as_str))
        }
    }
}
