//! Where a conversion goes: a file that appears under its name only when it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub use ingero_replay::output::{PendingFile, PendingFolder, forget_on_signal};

use crate::error::Error;

/// What is being done when a stream cannot be written.
pub(crate) const WRITING: &str = "writing";

/// A new file that its owner alone can read, as every output is: a recording tells what processes of others did.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Streams to a file that appears when it is complete, packed if its name ends in .gz, or to standard output.
///
/// # Errors
/// Those of `write`, and [`Error::Exists`] and [`Error::Io`] of the file.
pub fn write_stream<T>(
    output: Option<&Path>,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Error>,
) -> Result<T, Error> {
    const BUFFER: usize = 1 << 18;
    let Some(output) = output else { return write(&mut BufWriter::with_capacity(BUFFER, io::stdout().lock())) };
    let failed = |e| Error::io(format!("writing {}", output.display()), e);
    // Whoever writes does not know where to.
    let write = |out: &mut dyn Write| {
        write(out).map_err(|e| match e {
            Error::Io { what, source } if what == WRITING => failed(source),
            other => other,
        })
    };
    if output.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let problem = format!(
            "is a device or a pipe, whose place no file should take; write to standard output: -o - > {}",
            output.display()
        );
        return Err(Error::Input { path: output.to_owned(), problem });
    }
    let pending = PendingFile::create(output, force)?;
    let mut out = BufWriter::with_capacity(BUFFER, pending.writer()?);
    let done = if output.extension().is_some_and(|e| e == "gz") {
        let mut packed = flate2::write::GzEncoder::new(&mut out, flate2::Compression::default());
        let done = write(&mut packed)?;
        packed.finish().map_err(failed)?;
        done
    } else {
        write(&mut out)?
    };
    out.flush().map_err(failed)?;
    pending.publish()?;
    Ok(done)
}
