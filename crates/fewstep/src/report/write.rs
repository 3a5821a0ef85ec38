//! Files that are always whole: written beside their place, then renamed into it.
//!
//! A report is rewritten while the run goes on, and runs are interrupted. A reader must
//! find the old file or the new one, never half of either, and neither may vanish with
//! the power. Hence the order: temporary file, fsync, rename, fsync of the directory.

use super::{Report, html, split_chart, tv_chart};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file could not be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    /// The file that was to be written.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// Writes `report.html`, `tv.svg`, `report.json` and, if there is a split, `split.svg`.
pub fn write(report: &Report, dir: &Path) -> Result<(), WriteError> {
    let mut views = vec![("tv.svg", tv_chart(report)), ("report.html", html(report))];
    if !report.split.is_empty() {
        views.push(("split.svg", split_chart(report)));
    }
    write_views(dir, &views, report)
}

/// Writes `views` by their names, then the data they show as `report.json`.
///
/// The directory is created if it is missing. `report.json` comes last: when it is there,
/// so are the others.
pub(crate) fn write_views(
    dir: &Path,
    views: &[(&str, String)],
    data: &impl Serialize,
) -> Result<(), WriteError> {
    fs::create_dir_all(dir).map_err(|source| WriteError {
        path: dir.into(),
        source,
    })?;
    for (name, view) in views {
        atomic(&dir.join(name), view.as_bytes())?;
    }
    let path = dir.join("report.json");
    match serde_json::to_vec_pretty(data) {
        Ok(json) => atomic(&path, &json),
        Err(error) => Err(WriteError {
            path,
            source: error.into(),
        }),
    }
}

/// Replaces the file at `path` by `bytes`, all or nothing.
pub fn atomic(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    fewstep_nn::replace(path, |out| out.write_all(bytes)).map_err(|source| WriteError {
        path: path.into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("readable");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("entry").file_name();
        let mut names: Vec<_> = entries
            .map(name)
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn atomic_replaces_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("file");
        atomic(&path, b"a longer first version").expect("writes");
        atomic(&path, b"second").expect("replaces");
        assert_eq!(fs::read(&path).expect("reads"), b"second");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_failed_rename_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("occupied");
        fs::create_dir_all(path.join("inner")).expect("creates");
        assert_eq!(
            atomic(&path, b"x")
                .expect_err("a directory is in the way")
                .path,
            path
        );
        assert_eq!(names(dir.path()), ["occupied"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_as_readable_as_any_other() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("temporary directory");
        let (ours, plain) = (dir.path().join("ours"), dir.path().join("plain"));
        atomic(&ours, b"x").expect("writes");
        fs::write(&plain, b"x").expect("writes");
        let mode = |path: &Path| fs::metadata(path).expect("exists").permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }

    #[test]
    fn a_report_is_four_files_and_its_json_reads_back() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let out = dir.path().join("new/out");
        write(&sample(), &out).expect("writes");
        assert_eq!(
            names(&out),
            ["report.html", "report.json", "split.svg", "tv.svg"]
        );
        let json = fs::read(out.join("report.json")).expect("reads");
        assert_eq!(
            serde_json::from_slice::<Report>(&json).expect("parses"),
            sample()
        );
        let svg = fs::read_to_string(out.join("tv.svg")).expect("reads");
        assert_eq!(svg, tv_chart(&sample()));
    }

    #[test]
    fn without_a_split_there_is_no_split_chart() {
        let dir = tempfile::tempdir().expect("temporary directory");
        write(
            &Report {
                split: Vec::new(),
                ..sample()
            },
            dir.path(),
        )
        .expect("writes");
        assert_eq!(names(dir.path()), ["report.html", "report.json", "tv.svg"]);
    }

    #[test]
    fn an_unwritable_directory_is_named() {
        // A file where the directory should be stops even the superuser.
        let dir = tempfile::tempdir().expect("temporary directory");
        let blocked = dir.path().join("file");
        fs::write(&blocked, b"").expect("writes");
        let target = blocked.join("report.json");
        let message = atomic(&target, b"x").expect_err("no directory").to_string();
        assert!(
            message.starts_with(&format!("cannot write {}: ", target.display())),
            "{message}"
        );
        assert!(message.contains("Not a directory"), "{message}");
        assert!(
            write(&sample(), &blocked)
                .expect_err("no directory")
                .to_string()
                .contains("file")
        );
    }
}
