//! The state of a training whose network learns beside a second one, each with an optimizer of its own.
//!
//! Two files cannot be replaced at once. So the second network's state is written first, into a
//! directory that is named by its step, then the first one's, which is the one that counts, and then
//! older second ones are removed. Whenever that is cut short, the state that counts still has its
//! companion.

use std::{fs, io, path::Path};

use super::{StateError, TrainState, file::Stored};

/// How the directories of second states begin.
const SECOND: &str = "second-";

impl<T: Stored> TrainState<T> {
    /// Replaces the states in `dir` by this one and its companion of the same step, all or nothing.
    pub fn save_with(&self, second: Option<&Self>, dir: &Path) -> Result<(), StateError> {
        let Some(second) = second else {
            return self.save(dir);
        };
        assert_eq!(self.step(), second.step(), "steps of the two networks");
        let name = format!("{SECOND}{}", self.step());
        second.save(&dir.join(&name))?;
        self.save(dir)?;
        remove_others(dir, &name).map_err(|source| StateError::Write {
            file: dir.to_path_buf(),
            source,
        })
    }

    /// The companion of this state in `dir`.
    pub fn load_second(&self, dir: &Path) -> Result<Self, StateError> {
        Self::load(&dir.join(format!("{SECOND}{}", self.step())))
    }
}

fn remove_others(dir: &Path, name: &str) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let other = entry.file_name();
        let other = other.to_string_lossy();
        if other.starts_with(SECOND) && other != name {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::{Schedule, Settings, Trainable};

    fn state(seed: u64, steps: u64) -> TrainState<f32> {
        let all = Trainable::all(3);
        let mut state = TrainState::new(seed, vec![1.0; 3], all, Settings::ADAM, None);
        for _ in 0..steps {
            let gradient = [0.1 * seed as f32, 0.2, -0.3];
            let schedule = Schedule::constant(0.1);
            state.apply(&gradient, 0.0, &schedule, None).unwrap();
        }
        state
    }

    /// A kill after the second state was written, and before the first one was, loses nothing.
    #[test]
    fn the_companion_is_the_one_of_the_same_step() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        state(1, 4).save_with(Some(&state(2, 4)), dir).unwrap();
        let second = state(2, 9);
        second.save(&dir.join("second-9")).unwrap();
        let first = TrainState::<f32>::load(dir).unwrap();
        assert_eq!(first, state(1, 4));
        assert_eq!(first.load_second(dir).unwrap(), state(2, 4));

        state(1, 9).save_with(Some(&second), dir).unwrap();
        let first = TrainState::<f32>::load(dir).unwrap();
        assert_eq!(first.load_second(dir).unwrap(), second);
        assert!(!dir.join("second-4").exists());
    }
}
