//! A cache in front of memcached, after BMC (Ghigoff and others, NSDI 2021): GETs over UDP whose keys are
//! all known are answered at XDP; values become known from memcached's own replies, seen at tc egress;
//! writes, seen on their way in and when they are answered, make them unknown again.
//!
//! A value that is answered was memcached's at some time between the request's arrival and its answer, or
//! memcached itself is asked. What that rests on:
//!
//! - All writes pass by: in ASCII or meta commands over IPv4 or IPv6, TCP or UDP. Anything that looks like
//!   the binary protocol empties the cache.
//! - A reply is kept only if no write of its slot arrived since its request did, and once more forgotten when
//!   memcached answers a write. Writes without an answer (`noreply`, UDP) keep their slot empty for
//!   [`cache::GUARD_NS`], within which memcached must have carried them out.
//! - What a client writes is kept in place of a value that is known, once memcached has answered the write, if no
//!   other write of its slot arrived since. Which answer belongs to which write is known on connections that were
//!   seen from their begin, every byte in order, on which nothing but `set` was said.
//! - A slot to which any key with an expiry time was written is not used again. What memcached holds when
//!   the program is attached must not expire.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod answer;
pub mod cache;
pub mod command;
pub mod flow;
pub mod learn;
pub mod wire;

pub use answer::answer;
pub use learn::learn;
