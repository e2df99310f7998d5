//! What others published, and what came of it here.

use serde::{Deserialize, Serialize};

/// A published claim.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// What is claimed.
    pub text: String,
    /// Where: `Table 1 of ...`.
    pub source: String,
    /// The published figures; other hardware, never part of a ratio with ours.
    pub published: String,
    /// Ours, with their intervals; empty when there are none.
    pub measured: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Why; must say so when the claim does not hold or cannot be tested.
    pub reason: String,
}

/// What came of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is so here too.
    Holds,
    /// It is not.
    DoesNotHold,
    /// What was measured leaves it open.
    Inconclusive,
    /// This machine cannot show it either way.
    NotTestable,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds here",
            Verdict::DoesNotHold => "does not hold here",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotTestable => "not testable here",
        }
    }

    /// A sign that does not need colour.
    pub fn sign(self) -> &'static str {
        match self {
            Verdict::Holds => "✓",
            Verdict::DoesNotHold => "✗",
            Verdict::Inconclusive => "?",
            Verdict::NotTestable => "–",
        }
    }
}
