//! Plain loops, compiled for the widest vectors of the machine and chosen at run time.

use pulp::{Arch, Simd, WithSimd};

struct Call<A, F> {
    argument: A,
    f: F,
}

impl<A, R, F: Fn(A) -> R> WithSimd for Call<A, F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> R {
        (self.f)(self.argument)
    }
}

/// `f(argument)`, where `f` is an `#[inline(always)]` closure.
///
/// What `f` changes comes in by the argument: a closure that mutates what it captures is called
/// through a shim that the compiler need not inline, and then runs without any of the vectors it
/// was meant for.
#[inline(always)]
pub fn run<A, R>(argument: A, f: impl Fn(A) -> R) -> R {
    Arch::new().dispatch(Call { argument, f })
}
