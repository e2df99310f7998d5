//! How many requests a second are answered: they are made in the kernel, at a rate that does not depend on
//! the replies, so that neither a client's system calls nor its waiting set the limit.

use crate::error::LabError;
use crate::generator::{LiveGenerator, Load};
use crate::replies::{Counted, Replies};
use crate::search::{Found, Goal, Search, Try};
use crate::testbed::{CONTROL_PRIORITY, Placed, Role, Testbed};
use crate::trial::Request;
use std::time::Duration;

/// Share that may remain without a reply, and finest step of the search.
const LOSS: f64 = 0.005;
const STEP: f64 = 0.01;
/// Of the first steps: how far away it is nobody knows.
const FACTOR: f64 = 2.0;
/// Time after which nothing is under way any more.
const DRAIN: Duration = Duration::from_millis(5);
/// One search.
pub struct Capacity<'a> {
    /// Where.
    pub bed: &'a Testbed,
    /// Who asks.
    pub asking: &'a LiveGenerator,
    /// Who takes the replies.
    pub replies: &'a Replies,
    /// Which request is the n-th.
    pub order: Vec<u32>,
    /// How long each rate is tried.
    pub duration: Duration,
    /// Rates that are tried.
    pub tries: usize,
    /// The trial.
    pub request: &'a Request<'a>,
}

impl Capacity<'_> {
    /// The highest rate at which next to all requests are answered; `start` is one that might be answered.
    /// With it, what all replies came to.
    pub fn find(&self, start: f64) -> Result<(Option<Found>, Counted), LabError> {
        let _placed = Placed::on(self.bed.placement.cpu(Role::Server), CONTROL_PRIORITY)?;
        let mut all = Counted::default();
        let mut search = Search::new(start, FACTOR, Goal { loss: LOSS, step: STEP, tries: self.tries });
        while let Some(rate) = search.next() {
            let (tried, counted) = self.attempt(rate)?;
            all.add(counted);
            search.learn(tried);
        }
        self.replies.pass()?;
        Ok((search.found(), all))
    }

    fn attempt(&self, rate: f64) -> Result<(Try, Counted), LabError> {
        self.request.check()?;
        self.replies.take()?;
        let load = Load { flows: self.order.clone(), ..Load::new(Some(rate), self.duration) };
        let sent = self.asking.send(self.bed, &load)?;
        std::thread::sleep(DRAIN);
        let counted = self.replies.counted()?;
        let share = counted.right as f64 / sent.frames.max(1) as f64;
        Ok((Try { offered: sent.rate(), received: sent.rate() * share, loss: 1.0 - share }, counted))
    }
}
