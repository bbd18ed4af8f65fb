//! `ingero-convert`: reads the command line and runs the conversion.

use ingero_convert::{import, input::Input};
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let args: Vec<_> = std::env::args_os().collect();
    let input = Input::open(Path::new(&args[1]))?;
    let done = import::ftrace::import(
        &input,
        Path::new(&args[2]),
        import::ftrace::ImportOptions { force: true, ..Default::default() },
    )?;
    println!("{done:?}");
    Ok(())
}
