//! What the machine is asked to do at its full speed: matrix products.
//!
//! Large products ([`matmul()`]) are ours in f32 on x86, else a library's. Attention's are small, many, and share operands:
//! it packs panels in the order an innermost loop reads them ([`pack`]) and runs that loop itself
//! ([`micro`]), one per instruction set, chosen at run time.

#[cfg(target_arch = "x86_64")]
mod amx;
mod matmul;
pub mod micro;
pub mod pack;

#[cfg(target_arch = "x86_64")]
pub use amx::Amx;
pub use matmul::{Buffers, Left, Right, aligned, alone, least, matmul, matmul_here, multiply};
pub use micro::{Large, Lines, Micro, Portable};
pub use pack::View;

use crate::Real;

/// Work to be compiled once for each kernel.
pub trait Task<T: Real> {
    /// Its result.
    type Output;
    /// Does it with this kernel.
    fn run<M: Micro<T>>(self, micro: M) -> Self::Output;
}

/// Runs `task` with the best f32 kernel of this machine.
pub(crate) fn dispatch_f32<K: Task<f32>>(task: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(micro) = Amx::detect() {
            return task.run(micro);
        }
        if let Some(micro) = micro::Avx512::detect() {
            return task.run(micro);
        }
        if let Some(micro) = micro::Avx2::detect() {
            return task.run(micro);
        }
    }
    task.run(Portable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<T: Real>(n: usize, seed: f64) -> Vec<T> {
        (0..n)
            .map(|i| T::of((i as f64 * 0.731 + seed).sin()))
            .collect()
    }

    fn plain(a: &[f64], b: &[f64], (m, n, k): (usize, usize, usize)) -> Vec<f64> {
        let mut c = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                c[i * n + j] = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
            }
        }
        c
    }

    fn transposed<T: Real>(v: &[T], rows: usize, cols: usize) -> Vec<T> {
        (0..rows * cols)
            .map(|i| v[i % rows * cols + i / rows])
            .collect()
    }

    struct Shape<'a, T>(View<'a, T>, View<'a, T>, &'a mut [T]);

    impl<T: Real> Task<T> for Shape<'_, T> {
        type Output = ();
        fn run<M: Micro<T>>(self, micro: M) {
            let (m, k, n) = (self.0.rows(), self.0.cols(), self.1.cols());
            let mut a = vec![T::of(7.0); pack::lhs_len::<T, M>(m, k)];
            let mut b = vec![T::of(7.0); pack::rhs_len::<T, M>(k, n)];
            pack::lhs(micro, self.0, &mut a);
            pack::rhs(micro, self.1, &mut b);
            multiply(
                micro,
                (m, n, k),
                Left::packed::<M>(&a, k),
                &b,
                self.2,
                n,
                true,
            );
        }
    }

    const SHAPES: [(usize, usize, usize); 10] = [
        (1, 1, 1),
        (3, 5, 7),
        (6, 64, 16),
        (7, 65, 17),
        (29, 70, 401),
        (200, 3100, 19),
        (64, 31, 900),
        (5, 1, 33),
        (4101, 3, 5),
        (131, 140, 1601),
    ];

    fn close<T: Real>(got: &[T], want: &[f64], tolerance: f64, what: &str) {
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!(
                (g.widen() - w).abs() < tolerance * (1.0 + w.abs()),
                "{what}: entry {i} is {g:?}, not {w}"
            );
        }
    }

    /// What is there of a machine's kernels, beside the one that it would take: small products and large.
    #[cfg(target_arch = "x86_64")]
    fn panels_and_threads<M: Micro<f32>>(
        micro: Option<M>,
        (a, b, want): (View<f32>, View<f32>, &[f64]),
        name: &str,
    ) {
        let Some(micro) = micro else { return };
        let mut c = vec![1.0; want.len()];
        Shape(a, b, &mut c).run(micro);
        close(&c, want, 3e-5, &format!("panels, {name}"));
        for threads in [false, true] {
            c.fill(1.0);
            let product = matmul::Product {
                a,
                b: b.into(),
                c: &mut c,
                accumulate: true,
                threads,
            };
            product.run(micro);
            close(&c, want, 3e-5, &format!("large, threads {threads}, {name}"));
        }
    }

    /// Six products of parts are as exact as the product they stand for: against f64, the worst entry is off by
    /// less than a sum of so many f32 can be, and by no more than twice what it is by vectors.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn tiles_are_as_exact_as_vectors() {
        let (Some(tiles), Some(vectors)) = (Amx::detect(), micro::Avx512::detect()) else {
            return;
        };
        fn run<M: Micro<f32>>(micro: M, a: View<f32>, b: View<f32>) -> Vec<f32> {
            let mut c = vec![0.0; a.rows() * b.cols()];
            let product = matmul::Product {
                a,
                b: b.into(),
                c: &mut c,
                accumulate: false,
                threads: true,
            };
            product.run(micro);
            c
        }
        for (m, n, k, scale) in [(70, 90, 1, 1.0), (64, 96, 31, 1e-12), (50, 70, 1200, 1e15)] {
            // Numbers of many sizes, with all 24 bits in use.
            let many = |count: usize, seed: f64| -> Vec<f32> {
                let numbers = numbers::<f64>(count, seed).into_iter().enumerate();
                let spread = |(i, x): (usize, f64)| x * scale * 3f64.powi(i as i32 % 13 - 6);
                numbers.map(spread).map(|x| x as f32).collect()
            };
            let (a, b) = (many(m * k, 0.1), many(k * n, 2.0));
            let wide = |v: &[f32]| v.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            let size = |v: &[f32]| v.iter().map(|x| f64::from(x.abs())).collect::<Vec<_>>();
            let want = plain(&wide(&a), &wide(&b), (m, n, k));
            let sizes = plain(&size(&a), &size(&b), (m, n, k));
            let (left, right) = (View::new(&a, m, k), View::new(&b, k, n));
            let worst = |c: Vec<f32>| {
                let all = c.iter().zip(&want).zip(&sizes);
                all.map(|((c, w), s)| (f64::from(*c) - w).abs() / s)
                    .fold(0.0, f64::max)
            };
            let (by_tiles, by_vectors) = (
                worst(run(tiles, left, right)),
                worst(run(vectors, left, right)),
            );
            assert!(
                by_tiles < 6e-8 * (1.0 + (k as f64).sqrt()),
                "{by_tiles:e}, k = {k}"
            );
            assert!(
                by_tiles < 2.0 * by_vectors + 6e-8,
                "{by_tiles:e} and {by_vectors:e}"
            );
        }
    }

    /// What is not finite is found at the end, whoever multiplies.
    #[test]
    fn what_is_not_finite_stays_so() {
        let (m, n, k) = (40, 50, 70);
        for bad in [
            f32::NAN,
            f32::from_bits(0x7fff_ffff),
            f32::from_bits(0x7f80_0001),
            f32::INFINITY,
            f32::NEG_INFINITY,
        ] {
            let (mut a, b) = (numbers::<f32>(m * k, 0.1), numbers::<f32>(k * n, 2.0));
            a[17 * k + 33] = bad;
            let mut c = vec![0.0; m * n];
            matmul(View::new(&a, m, k), View::new(&b, k, n), &mut c, false);
            for (i, c) in c.iter().enumerate() {
                assert_eq!(c.is_finite(), i / n != 17, "{bad}: entry {i} is {c}");
            }
        }
    }

    /// Each kernel, in all four layouts of its operands, against the sum written out.
    #[test]
    fn every_kernel_multiplies() {
        for (m, n, k) in SHAPES {
            let (a, b) = (numbers::<f64>(m * k, 0.1), numbers::<f64>(k * n, 2.0));
            let mut want = plain(&a, &b, (m, n, k));
            want.iter_mut().for_each(|w| *w += 1.0);
            let (a32, b32) = (numbers::<f32>(m * k, 0.1), numbers::<f32>(k * n, 2.0));
            let (at, bt) = (transposed(&a32, m, k), transposed(&b32, k, n));
            for (a, a_name) in [
                (View::new(&a32, m, k), "plain"),
                (View::new(&at, k, m).t(), "transposed"),
            ] {
                for (b, b_name) in [
                    (View::new(&b32, k, n), "plain"),
                    (View::new(&bt, n, k).t(), "transposed"),
                ] {
                    let name = format!("{m} x {n} x {k}, {a_name} {b_name}");
                    let mut c = vec![1.0; m * n];
                    Shape(a, b, &mut c).run(Portable);
                    close(&c, &want, 3e-5, &format!("portable {name}"));
                    #[cfg(target_arch = "x86_64")]
                    {
                        let operands = (a, b, &want[..]);
                        panels_and_threads(Amx::detect(), operands, &format!("amx {name}"));
                        panels_and_threads(
                            micro::Avx512::detect(),
                            operands,
                            &format!("avx512 {name}"),
                        );
                        panels_and_threads(
                            micro::Avx2::detect(),
                            operands,
                            &format!("avx2 {name}"),
                        );
                    }
                    c.fill(1.0);
                    matmul(a, b, &mut c, true);
                    close(&c, &want, 3e-5, &format!("threads {name}"));
                    let mut again = vec![1.0; m * n];
                    let mut panels = vec![7.0; 3];
                    Right::pack(b, &mut panels);
                    matmul(a, Right::packed(b, &panels), &mut again, true);
                    assert_eq!(c, again, "shared panels, {name}");
                }
            }
            let mut c = vec![1.0; m * n];
            matmul(View::new(&a, m, k), View::new(&b, k, n), &mut c, true);
            close(&c, &want, 1e-12, "f64");
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let (m, n, k) = (301, 333, 777);
        let (a, b) = (numbers::<f32>(m * k, 0.1), numbers::<f32>(k * n, 2.0));
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let mut c = vec![0.0; m * n];
            pool.install(|| matmul(View::new(&a, m, k), View::new(&b, k, n), &mut c, false));
            c
        };
        assert_eq!(run(1), run(3));
    }

    /// A row of a product is the same with one other row or with hundreds, where ours computes it.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn rows_do_not_depend_on_their_number() {
        if micro::Avx2::detect().is_none() {
            return;
        }
        let (m, n, k) = (299, 333, 1777);
        let (a, b) = (numbers::<f32>(m * k, 0.1), numbers::<f32>(k * n, 2.0));
        let run = |rows: usize| {
            let mut c = vec![0.0; rows * n];
            let left = View::new(&a[..rows * k], rows, k);
            matmul(left, View::new(&b, k, n), &mut c, false);
            c
        };
        let all = run(m);
        for rows in [1, 2, 7, 128, 298] {
            assert_eq!(run(rows), all[..rows * n], "{rows} rows");
        }
    }

    /// An empty inner size is a sum of nothing.
    #[test]
    fn empty_sums() {
        let mut c = vec![5.0f32; 6];
        matmul(View::new(&[], 2, 0), View::new(&[], 0, 3), &mut c, true);
        assert_eq!(c, [5.0; 6]);
        matmul(View::new(&[], 2, 0), View::new(&[], 0, 3), &mut c, false);
        assert_eq!(c, [0.0; 6]);
    }
}
