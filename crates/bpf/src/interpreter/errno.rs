//! Error numbers that helpers return (kernel `include/uapi/asm-generic/errno*.h`).

pub(super) const ENOENT: i64 = 2;
pub(super) const E2BIG: i64 = 7;
pub(super) const EAGAIN: i64 = 11;
pub(super) const ENOMEM: i64 = 12;
pub(super) const EACCES: i64 = 13;
pub(super) const EFAULT: i64 = 14;
pub(super) const EEXIST: i64 = 17;
pub(super) const EINVAL: i64 = 22;
pub(super) const ERANGE: i64 = 34;
pub(super) const EOPNOTSUPP: i64 = 95;
pub(super) const ENOTSUPP: i64 = 524;

/// What `r0` holds when a helper returns `-errno`.
pub(super) fn negative(errno: i64) -> u64 {
    (-errno) as u64
}
