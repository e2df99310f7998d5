//! The `kara` command.
fn main() {}
