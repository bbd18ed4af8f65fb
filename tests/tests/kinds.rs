//! The page of the kinds of failure names tests that are there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

#[test]
fn every_test_that_the_page_names_is_there() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(tests.join("kinds.md")).unwrap();
    let rows: Vec<_> =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| **")).skip(1).collect();
    assert!(rows.len() > 40, "{} kinds", rows.len());
    for row in rows {
        let named: Vec<_> = row.split('`').filter(|word| word.contains(".rs::")).collect();
        assert!(!named.is_empty(), "no test: {row}");
        for name in named {
            let (file, test) = name.split_once("::").unwrap();
            let path = match file {
                file if file.starts_with("kernel/") => tests.join("../record/tests").join(file),
                file if file.contains('/') => tests.join("..").join(file),
                file => tests.join("tests").join(file),
            };
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {}: {e}", path.display()));
            let function = format!("fn {test}(");
            let at = text.find(&function).unwrap_or_else(|| panic!("{name} is not there"));
            let above: Vec<_> = text[..at].lines().rev().take(4).collect();
            assert!(above.iter().any(|line| line.trim() == "#[test]"), "{name} is no test");
        }
    }
}
