//! What a program drags in: whoever builds one of them alone compiles nothing that only another needs. Needs no root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ingero_tests::run;

#[test]
fn each_program_is_built_without_what_only_others_need() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let heavy = ["crossterm", "hyper", "maud", "parquet", "ratatui", "rmcp", "rusqlite", "tokio"];
    for (package, needed) in [
        ("ingero-record", &[][..]),
        ("ingero-replay", &[]),
        ("ingero-analyze", &["crossterm", "maud", "ratatui"]),
        ("ingero-convert", &["maud", "parquet", "rusqlite"]),
        ("ingero-mcp", &["hyper", "maud", "parquet", "rmcp", "rusqlite", "tokio"]),
    ] {
        let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        tree.current_dir(root).args([
            "tree",
            "--locked",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--package",
            package,
        ]);
        let tree = run(&mut tree, Duration::from_secs(60)).success().stdout;
        let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        let found: Vec<&str> = heavy.into_iter().filter(|name| names.contains(name)).collect();
        assert_eq!(found, needed, "{package}");
    }
}
