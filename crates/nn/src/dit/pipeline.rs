//! The order of work in a pass through the blocks, without a stop between them.
//!
//! A batch goes through the blocks in parts that know nothing of each other. If all threads met
//! after every block, each would wait there for the slowest part, at every block of every pass.
//! Here all work of a pass stands in one list. A thread takes the next item, waits until what it
//! needs is done, and does it [alone](kernel::alone). What an item needs stands before it, so
//! somebody is at it, and nobody waits in a circle. A thread whose part is through with a block goes
//! on with the next block, while another is still in this one.
//!
//! - The panels of a block's matrices are packed while the block before is gone through, into one of
//!   two rooms that take turns.
//! - On the way back a piece of a matrix's gradient is a sum over the parts, in their order, by one
//!   thread. It may begin with the first part while the last is still on its way, and a part may go
//!   on to the next block as soon as all pieces have had it.
//!
//! Who does what changes no bit: parts, pieces and the order of every sum are the list's.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::kernel;

/// Matrices of a block.
pub const MATRICES: usize = 4;

/// Parts of a block that begin after the next block's matrices were packed.
const LAST: usize = 2;

/// A piece of work in the block that is reached as the `at`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// To pack one of its matrices.
    Pack { at: usize, matrix: usize },
    /// To take a part through it.
    Part { at: usize, part: usize },
    /// To sum a piece of its gradient over all parts.
    Piece { at: usize, piece: usize },
}

/// A pass: how much of everything there is.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    /// Blocks.
    pub blocks: usize,
    /// Parts of the batch.
    pub parts: usize,
    /// Whether the matrices are packed for all parts.
    pub packs: bool,
    /// Pieces of a block's gradient.
    pub pieces: usize,
}

impl Pipeline {
    /// All work, in order.
    fn list(&self) -> Vec<Work> {
        let mut list = Vec::new();
        let pack = |at: usize| {
            let matrices = 0..if self.packs && at < self.blocks {
                MATRICES
            } else {
                0
            };
            matrices.map(move |matrix| Work::Pack { at, matrix })
        };
        let part = |at: usize| move |part| Work::Part { at, part };
        list.extend(pack(0));
        for at in 0..self.blocks {
            let first = self.parts - LAST.min(self.parts);
            list.extend((0..first).map(part(at)));
            list.extend(pack(at + 1));
            list.extend((first..self.parts).map(part(at)));
            list.extend((0..self.pieces).map(|piece| Work::Piece { at, piece }));
        }
        list
    }

    /// Does all of it: one item after the other on this thread, or, if every thread can work
    /// `alone`, by all of them. `work` calls [`Board::wait_for_part`] in a piece before it reads a
    /// part and [`Board::had`] after it.
    pub fn run(&self, alone: bool, work: impl Fn(Work, &Board) + Sync) {
        let list = self.list();
        let zeros = |n: usize| (0..n).map(|_| AtomicUsize::new(0)).collect();
        let board = Board {
            next: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            packed: zeros(self.blocks),
            parts: zeros(self.parts),
            pieces: (0..self.blocks).map(|_| zeros(self.pieces)).collect(),
        };
        let worker = || {
            while let Some(&item) = list.get(board.next.fetch_add(1, Ordering::Relaxed)) {
                self.wait(item, &board);
                let guard = Guard(&board);
                kernel::alone(alone, || work(item, &board));
                std::mem::forget(guard);
                match item {
                    Work::Pack { at, .. } => &board.packed[at],
                    Work::Part { part, .. } => &board.parts[part],
                    Work::Piece { .. } => continue,
                }
                .fetch_add(1, Ordering::Release);
            }
        };
        if alone {
            // None of them waits inside rayon, so none takes up another's loop in the middle of an item.
            rayon::scope(|scope| {
                for _ in 1..rayon::current_num_threads() {
                    scope.spawn(|_| worker());
                }
                worker();
            });
        } else {
            worker();
        }
    }

    fn wait(&self, item: Work, board: &Board) {
        match item {
            // The room is that of the block before the last, which all parts must have left.
            Work::Pack { at, .. } => {
                for part in &board.parts {
                    board.wait(part, at.saturating_sub(1));
                }
            }
            Work::Part { at, part } => {
                if self.packs {
                    board.wait(&board.packed[at], MATRICES);
                }
                board.wait(&board.parts[part], at);
                if let Some(before) = at.checked_sub(1) {
                    for piece in &board.pieces[before] {
                        board.wait(piece, part + 1);
                    }
                }
            }
            Work::Piece { .. } => {}
        }
    }
}

/// What is done already.
#[derive(Debug)]
pub struct Board {
    next: AtomicUsize,
    failed: AtomicBool,
    /// Matrices of each block that are packed.
    packed: Vec<AtomicUsize>,
    /// Blocks that each part has been through.
    parts: Vec<AtomicUsize>,
    /// Parts that each piece of each block has had.
    pieces: Vec<Vec<AtomicUsize>>,
}

impl Board {
    /// Waits until a part has been through the block reached as the `at`-th.
    pub fn wait_for_part(&self, at: usize, part: usize) {
        self.wait(&self.parts[part], at + 1);
    }

    /// Says that a piece has no more use for the part it waited for.
    pub fn had(&self, at: usize, piece: usize) {
        self.pieces[at][piece].fetch_add(1, Ordering::Release);
    }

    fn wait(&self, count: &AtomicUsize, least: usize) {
        let mut turns = 0u32;
        while count.load(Ordering::Acquire) < least {
            assert!(
                !self.failed.load(Ordering::Relaxed),
                "another thread of this pass has panicked"
            );
            turns += 1;
            if turns < 1 << 10 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// Tells all others, if its owner panics, that what they wait for will not come.
struct Guard<'a>(&'a Board);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.failed.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What was begun (`false`) and done (`true`), in the order in which it happened.
    fn events(pipeline: Pipeline, threads: usize) -> Vec<(Work, bool)> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let events = Mutex::new(Vec::new());
        let note = |work, done| events.lock().unwrap().push((work, done));
        pool.install(|| {
            pipeline.run(threads > 1, |work, board| {
                note(work, false);
                if let Work::Piece { at, piece } = work {
                    for part in 0..pipeline.parts {
                        board.wait_for_part(at, part);
                        // Read as parts: a piece must have had them before they move on.
                        note(
                            Work::Part {
                                at: at + 100 * (piece + 1),
                                part,
                            },
                            true,
                        );
                        board.had(at, piece);
                    }
                }
                if work == (Work::Part { at: 1, part: 0 }) {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                note(work, true);
            });
        });
        events.into_inner().unwrap()
    }

    /// Everything happens once, and after what it needs.
    #[test]
    fn nothing_begins_before_what_it_needs() {
        for (threads, parts, pieces, packs) in [
            (1, 3, 2, true),
            (2, 5, 3, true),
            (4, 4, 3, true),
            (5, 7, 0, true),
            (3, 3, 4, false),
        ] {
            let pipeline = Pipeline {
                blocks: 4,
                parts,
                packs,
                pieces,
            };
            let events = events(pipeline, threads);
            let place = |work: Work, done: bool| {
                let mut found = (0..events.len()).filter(|&i| events[i] == (work, done));
                let place = found.next().unwrap_or_else(|| panic!("no {work:?}"));
                assert_eq!(found.next(), None, "{work:?} twice");
                place
            };
            for at in 0..4 {
                for part in 0..parts {
                    let begun = place(Work::Part { at, part }, false);
                    if packs {
                        for matrix in 0..MATRICES {
                            assert!(place(Work::Pack { at, matrix }, true) < begun);
                        }
                    }
                    if at > 0 {
                        assert!(place(Work::Part { at: at - 1, part }, true) < begun);
                        for piece in 0..pieces {
                            let had = Work::Part {
                                at: at - 1 + 100 * (piece + 1),
                                part,
                            };
                            assert!(place(had, true) < begun);
                        }
                    }
                    for piece in 0..pieces {
                        let had = Work::Part {
                            at: at + 100 * (piece + 1),
                            part,
                        };
                        assert!(place(Work::Part { at, part }, true) < place(had, true));
                    }
                    if packs && at < 2 {
                        let packed = place(
                            Work::Pack {
                                at: at + 2,
                                matrix: 0,
                            },
                            false,
                        );
                        assert!(
                            place(Work::Part { at, part }, true) < packed,
                            "the room is in use"
                        );
                    }
                }
            }
        }
    }

    /// A panic ends the pass and leaves nobody waiting.
    #[test]
    fn a_panic_reaches_the_caller() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .build()
            .unwrap();
        let pipeline = Pipeline {
            blocks: 3,
            parts: 4,
            packs: true,
            pieces: 2,
        };
        let run = || {
            pool.install(|| {
                pipeline.run(true, |work, board| {
                    assert_ne!(work, Work::Part { at: 1, part: 2 }, "on purpose");
                    if let Work::Piece { at, piece } = work {
                        (0..4).for_each(|part| {
                            board.wait_for_part(at, part);
                            board.had(at, piece);
                        });
                    }
                });
            });
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    }
}
