//! What goes wrong, as the assistant is told it.

use std::path::Path;

use crate::words::clean;

/// One or two sentences for the assistant: what is wrong, and what to call or give instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

/// Characters of a message at most: values that it quotes can be of any length.
const MAX_CHARS: usize = 1000;

impl Problem {
    /// A problem in words. What a file or a client put into them is cleaned.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(clean(text.as_ref(), MAX_CHARS))
    }

    /// Something about a file.
    #[must_use]
    pub fn of(path: &Path, text: impl std::fmt::Display) -> Self {
        let (path, text) = (path.display().to_string(), text.to_string());
        // Many an error names its file itself.
        if text.contains(&path) { Self::new(text) } else { Self::new(format!("{path}: {text}")) }
    }
}
