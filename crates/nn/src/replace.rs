//! The one way to write a file: all or nothing.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::Path,
};

/// Replaces the file at `path` by what `fill` writes: to a temporary file beside it, synced and
/// renamed, so that a reader finds old or new and a failure leaves nothing behind.
pub fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // The parent of a bare file name is empty, which names no directory.
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Temporary files are private by default; the umask narrows this as for any file.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(directory)?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    fill(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    // Makes the rename itself last.
    #[cfg(unix)]
    fs::File::open(directory)?.sync_all()?;
    Ok(())
}
