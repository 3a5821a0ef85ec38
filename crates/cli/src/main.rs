//! The fewstep command.
fn main() {}
