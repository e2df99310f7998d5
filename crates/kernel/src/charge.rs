//! What the kernel says a program or map takes of its memory.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes, as in `memlock` of `/proc/self/fdinfo`: pages of a program's instructions, or all of a map. Machine code
/// and the pages of an arena are not in it. `None` where the kernel does not say.
pub fn bytes(object: BorrowedFd) -> Option<u64> {
    parse(&std::fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_raw_fd())).ok()?)
}

fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("memlock:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found() {
        assert_eq!(parse("pos:\t0\nprog_type:\t6\nmemlock:\t4096\nprog_id:\t7\n"), Some(4096));
        assert_eq!(parse("pos:\t0\n"), None);
    }
}
