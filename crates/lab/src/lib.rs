//! Numbers with error bars: what instructions take on this machine, how long programs run, and what
//! other kernels say, each in a way that anyone can repeat.

pub mod analysis;
pub mod bootstrap;
pub mod calibrate;
pub mod comparison;
pub mod disturbance;
pub mod environment;
pub mod error;
pub mod experiment;
pub mod files;
pub mod generator;
pub mod guest;
pub mod hook;
pub mod memcached;
pub mod object;
pub mod packet;
pub mod presentation;
pub mod programs;
pub mod random;
pub mod ratio;
mod repeats;
pub mod replies;
pub mod report;
pub mod results;
pub mod runner;
pub mod search;
pub mod server;
pub mod sink;
pub mod statistics;
pub mod test_run;
pub mod testbed;
pub mod trial;
pub mod trials;
pub mod units;
