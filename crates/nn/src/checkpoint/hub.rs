//! Finding a checkpoint: a path, or a name on Hugging Face.
//!
//! A name is `owner/name`, with `@revision` where it is not `main` (SDTT keeps one model per
//! revision). It is looked for in the cache all their tools share, which needs no network; with
//! the feature `hub` what is not there is downloaded into it.

use std::env;
use std::path::{Path, PathBuf};

use super::error::Error;

/// The path of a checkpoint: `name` itself if it exists, else a directory of the Hugging Face
/// cache, downloaded if the program was built with the feature `hub`.
pub fn resolve(name: &str) -> Result<PathBuf, Error> {
    if Path::new(name).exists() {
        return Ok(name.into());
    }
    let missing = |what: String| Error::NotFound {
        name: name.into(),
        what,
    };
    let Some(id) = Id::parse(name) else {
        return Err(missing("no such file or directory".into()));
    };
    if let Some(found) = cache().and_then(|cache| id.cached(&cache)) {
        return Ok(found);
    }
    download(&id).map_err(missing)
}

/// A model on Hugging Face.
struct Id<'a> {
    owner: &'a str,
    name: &'a str,
    revision: &'a str,
}

impl<'a> Id<'a> {
    /// `owner/name` or `owner/name@revision`; nothing that could be meant as a path, and nothing
    /// that leaves the cache.
    fn parse(text: &'a str) -> Option<Self> {
        let (model, revision) = text.split_once('@').unwrap_or((text, "main"));
        let (owner, name) = model.split_once('/')?;
        let word = |word: &str| {
            let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !word.is_empty() && !word.starts_with('.') && word.chars().all(good)
        };
        let file = [".safetensors", ".ckpt", ".pth", ".pt"];
        let file = file.iter().any(|end| model.ends_with(end));
        let good = word(owner) && word(name) && revision.split('/').all(word) && !file;
        good.then_some(Self {
            owner,
            name,
            revision,
        })
    }

    /// The snapshot in a cache, if it is complete.
    fn cached(&self, cache: &Path) -> Option<PathBuf> {
        let model = cache.join(format!("models--{}--{}", self.owner, self.name));
        let commit = std::fs::read_to_string(model.join("refs").join(self.revision));
        let commit = commit.unwrap_or_else(|_| self.revision.into());
        let commit = commit.trim();
        let plain = commit.chars().all(|c| c.is_ascii_alphanumeric());
        let snapshot = plain.then(|| model.join("snapshots").join(commit))?;
        let whole = ["config.json", "model.safetensors"];
        let whole = whole.iter().all(|file| snapshot.join(file).is_file());
        whole.then_some(snapshot)
    }
}

/// Where the tools of Hugging Face keep what they downloaded.
fn cache() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let home = set("HF_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cache/huggingface")));
    Some(home?.join("hub"))
}

#[cfg(feature = "hub")]
fn download(id: &Id) -> Result<PathBuf, String> {
    use hf_hub::{Repo, RepoType, api::sync::ApiBuilder};
    let failed = |error: hf_hub::api::sync::ApiError| {
        format!("no such file, and it cannot be had from Hugging Face: {error}")
    };
    let api = ApiBuilder::from_env().build().map_err(failed)?;
    let model = format!("{}/{}", id.owner, id.name);
    let repo = Repo::with_revision(model, RepoType::Model, id.revision.into());
    let repo = api.repo(repo);
    repo.get("config.json").map_err(failed)?;
    let weights = repo.get("model.safetensors").map_err(failed)?;
    let directory = weights.parent().map(Path::to_owned);
    directory.ok_or("its weights are in no directory".into())
}

#[cfg(not(feature = "hub"))]
fn download(id: &Id) -> Result<PathBuf, String> {
    Err(format!(
        "no such file, and not in the Hugging Face cache; get it with `hf download {}/{} \
         --revision {}`, or build with `--features hub`",
        id.owner, id.name, id.revision
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_and_paths_are_told_apart() {
        for good in [
            "kuleshov-group/mdlm-owt",
            "jdeschena/sdtt@scaling_400k_sm_step_70000",
            "a/b@refs/pr/1",
        ] {
            assert!(Id::parse(good).is_some(), "{good}");
        }
        for bad in [
            "name",
            "/a/b",
            "./b",
            "../b",
            "a/../b",
            "a/b/c",
            "a/b@",
            "a/b@../../x",
            "runs/last.ckpt",
            "a/",
            "a/b c",
            "",
        ] {
            assert!(Id::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_existing_path_wins_and_a_missing_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        assert_eq!(resolve(path).unwrap(), dir.path());
        let missing = format!("{path}/missing.ckpt");
        let error = resolve(&missing).unwrap_err().to_string();
        assert_eq!(error, format!("{missing}: no such file or directory"));
    }

    #[test]
    fn the_cache_is_searched() {
        let cache = tempfile::tempdir().unwrap();
        let model = cache.path().join("models--a--b");
        let snapshot = model.join("snapshots/0123abc");
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), "0123abc\n").unwrap();
        fs::write(model.join("refs/evil"), "../../../x").unwrap();
        let find = |name: &str| Id::parse(name).unwrap().cached(cache.path());
        assert_eq!(find("a/b"), None);
        for file in ["config.json", "model.safetensors"] {
            fs::write(snapshot.join(file), "").unwrap();
        }
        assert_eq!(find("a/b"), Some(snapshot.clone()));
        assert_eq!(find("a/b@0123abc"), Some(snapshot));
        assert_eq!(find("a/b@evil"), None);
        assert_eq!(find("a/c"), None);
    }
}
