//! Numbers with error bars: what instructions take on this machine, how long programs run, and what
//! other kernels say, each in a way that anyone can repeat.

pub mod calibrate;
pub mod error;
pub mod files;
pub mod generator;
pub mod guest;
pub mod hook;
pub mod object;
pub mod packet;
pub mod programs;
pub mod random;
pub mod ratio;
pub mod report;
pub mod search;
pub mod statistics;
pub mod testbed;
pub mod trial;
pub mod trials;
