//! Requests that a fast path does not serve, beside many that it does (Figures 5 and 6 of "Demystifying
//! Performance of eBPF Network Applications").

use super::{HITS, Prepared};
use crate::error::LabError;
use crate::generator::{Exchange, Load, Pace, Waiting, exchange};
use crate::memcached::{Contents, Gets, Memcached};
use crate::testbed::{CONTROL_PRIORITY, Placed, Role, Testbed};
use crate::trial::{Outcome, Request, Samples};
use crate::trials::echo::fault;
use crate::trials::keyvalue::front::InPlace;
use std::net::UdpSocket;
use std::time::Duration;

/// Longer than fast paths take, and than memcached's longest is not.
const LONG_KEY: usize = 100;
/// Of the values that the client asks for.
const VALUE: usize = 1000;
/// The background lasts so much longer than what is measured.
const MARGIN: Duration = Duration::from_millis(100);

impl Prepared {
    /// The client's requests, one at a time, beside `rate` of the kernel's.
    pub(super) fn ask_beside(
        &self,
        rate: f64,
        bed: &Testbed,
        client: &UdpSocket,
        in_place: &InPlace,
        memcached: &mut Memcached,
        request: &Request,
    ) -> Result<Outcome, LabError> {
        let contents = Contents::new(1, LONG_KEY, VALUE);
        memcached.store(&contents)?;
        let duration = Duration::from_millis(self.plan.duration_ms);
        let plan = Exchange {
            pace: Pace::Closed { outstanding: 1, think: Duration::ZERO },
            waiting: Waiting::Asleep,
            duration,
            seed: request.seed,
        };
        let ask = || {
            // Before the generator on the same CPU, and asleep while it waits.
            let _placed = Placed::on(bed.placement.cpu(Role::Generator), CONTROL_PRIORITY)?;
            exchange(client, plan, &mut Gets::new(&contents))
        };
        let hits = in_place.hits()?;
        let load = Load { flows: self.order(), ..Load::new(Some(rate), duration + MARGIN) };
        self.replies.take()?;
        let (sent, exchanged) = self.asking.send_beside(bed, &load, ask)?;
        let counted = self.replies.counted()?;
        let mut outcome = Outcome { void: fault(&exchanged), ..Outcome::default() };
        if counted.wrong > 0 {
            outcome.void.get_or_insert(format!("{} wrong replies", counted.wrong));
        }
        if let (Some(before), Some(after)) = (hits, in_place.hits()?) {
            let share = (after - before) as f64 / counted.right.max(1) as f64;
            if share < HITS {
                outcome.void.get_or_insert(format!("the program answered only {:.2} %", share * 100.0));
            }
        }
        let answered = counted.right as f64 / sent.frames.max(1) as f64;
        outcome
            .notes
            .insert("background, answered".into(), format!("{:.2} % of {:.0}/s", answered * 100.0, sent.rate()));
        outcome.notes.insert("placement".into(), bed.placement.describe());
        outcome.samples.push(Samples::one("background", "%", answered * 100.0));
        outcome.samples.push(Samples::one("rate", "requests/s", exchanged.rate));
        outcome.samples.push(Samples::many("response", "ns", exchanged.response));
        Ok(outcome)
    }
}
