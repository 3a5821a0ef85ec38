//! A run that is killed again and again ends with the bits of one that was not.
#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use fewstep_ctmc::random::{Key, Purpose, index, uniform};
use fewstep_nn::optim::{Averaging, FILE, Schedule, Settings, TrainState, Trainable};
use fewstep_nn::{Batch, Conditioned, Conditioning, Pass};

/// Where the child trains; unset, it does nothing.
const DIRECTORY: &str = "FEWSTEP_RESUME_TEST";
const STEPS: u64 = 60;
const SAVE_EVERY: u64 = 3;
const ROWS: usize = 96;
const KILLS: u64 = 10;

/// One step on rows that depend on the seed and the step alone: fits logits to a fixed target.
fn train_step(net: &mut Conditioned<f32>, pass: &mut Pass<f32>, state: &mut TrainState<f32>) {
    net.parameters_mut().copy_from_slice(state.parameters());
    let mut rng = Key::new(state.seed(), Purpose::Data).at(state.step(), 0);
    let x: Vec<usize> = (0..ROWS * 3).map(|_| index(&mut rng, 4)).collect();
    let t: Vec<f64> = (0..ROWS).map(|_| uniform(&mut rng)).collect();
    let batch = Batch {
        x: &x,
        t: &t,
        r: &t,
    };
    net.evaluate(batch, false, pass);
    let target = |i: usize| if x[i / 4] == i % 4 { 1.0 } else { -1.0 };
    let share = 1.0 / pass.logits.len() as f64;
    let off: Vec<f64> = pass
        .logits
        .iter()
        .enumerate()
        .map(|(i, l)| l - target(i))
        .collect();
    let loss = off.iter().map(|d| 0.5 * share * d * d).sum();
    let gradient: Vec<f64> = off.iter().map(|d| share * d).collect();
    let gradient = net.backward(&gradient, pass);
    let schedule = Schedule::cosine(3e-3, 5, STEPS);
    state.apply(gradient, loss, &schedule, Some(0.5)).unwrap();
}

/// The training process: goes on from what is saved. Run by the test below, in a process of its own.
#[test]
#[ignore = "a part of killed_runs_end_like_others"]
fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let mut net = Conditioned::<f32>::new(Conditioning::Instant, (3, 4, 4), &[128, 128], 5);
    let mut state = if dir.join(FILE).exists() {
        TrainState::load(&dir).unwrap()
    } else {
        let parameters = net.parameters().to_vec();
        let all = Trainable::all(parameters.len());
        let averaging = Some(Averaging::default());
        TrainState::new(11, parameters, all, Settings::default(), averaging)
    };
    let mut pass = Pass::default();
    while state.step() < STEPS {
        train_step(&mut net, &mut pass, &mut state);
        sleep(Duration::from_millis(4));
        if state.step() % SAVE_EVERY == 0 {
            println!("saving");
            state.save(&dir).unwrap();
        }
        println!("stepped");
    }
}

/// A training process and what it says.
fn start(dir: &Path, threads: u64) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(DIRECTORY, dir)
        .env("RAYON_NUM_THREADS", threads.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

/// Lets a training process end by itself.
fn finish(dir: &Path, threads: u64) {
    let (mut child, lines) = start(dir, threads);
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
}

#[test]
fn killed_runs_end_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, killed) = (dir.path().join("whole"), dir.path().join("killed"));
    finish(&whole, 2);

    let key = Key::new(1, Purpose::Check);
    let (mut steps, mut interrupted) = (0, 0);
    for round in 0..KILLS {
        let mut rng = key.at(round, 0);
        let (mut child, mut lines) = start(&killed, 1 + round % 3);
        // In every other round a save has just begun.
        let (word, most) = [("stepped", 6), ("saving", 2)][round as usize % 2];
        // The harness may put its own words before the first of ours.
        let lines = lines.by_ref().map_while(Result::ok);
        let heard = lines.filter(|line| line.ends_with(word));
        heard.take(1 + index(&mut rng, most)).for_each(drop);
        sleep(Duration::from_secs_f64(0.004 * uniform(&mut rng)));
        child.kill().unwrap();
        child.wait().unwrap();
        if killed.join(FILE).exists() {
            let state = TrainState::<f32>::load(&killed).unwrap();
            assert!(state.step() >= steps, "no step is lost once saved");
            steps = state.step();
        }
        if steps == STEPS {
            break;
        }
        interrupted += 1;
    }
    assert!(steps > 0, "the kills came before anything was saved");
    assert!(interrupted >= 3, "the kills came too late");
    finish(&killed, 2);

    let bytes = |dir: &Path| fs::read(dir.join(FILE)).unwrap();
    assert!(bytes(&whole) == bytes(&killed), "the states differ");
    let state = TrainState::<f32>::load(&killed).unwrap();
    assert_eq!(state.step(), STEPS);
}
