//! What instructions and helpers take, measured: `kara lab calibrate` writes such a model, and one
//! comes with the program.

use super::class::Class;
use karakoram_bpf::helper;
use karakoram_bpf::insn::Insn;
use karakoram_bpf::map::MapType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// Name of the parameter for helpers that have none of their own.
const OTHER_HELPERS: &str = "helper.other";

/// One measured quantity, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Parameter {
    /// Each instruction waits for the one before it.
    pub chain_ns: f64,
    /// Instructions that do not depend on one another.
    pub stream_ns: f64,
    /// How far measurements of the larger of the two lie apart (half the interquartile range).
    pub spread_ns: f64,
}

impl Parameter {
    /// What one costs: real code is between a chain and independent instructions.
    pub fn ns(&self) -> f64 {
        (self.chain_ns + self.stream_ns) / 2.0
    }
}

/// Where a model comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// Processor.
    pub cpu: String,
    /// Kernel release.
    pub kernel: String,
    /// Day of the measurement, `YYYY-MM-DD`.
    pub date: String,
    /// How it was measured.
    pub method: String,
}

/// A model: parameters by name. Names are those of [`Class`], `helper.NAME`, and for map helpers
/// `helper.NAME.MAPTYPE`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// Where it comes from.
    pub provenance: Provenance,
    /// The parameters.
    pub cost: BTreeMap<String, Parameter>,
}

/// Why a text is no model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError(String);

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "this is no model of latencies: {}", self.0)
    }
}

impl std::error::Error for ModelError {}

impl Latencies {
    /// The model that comes with the program.
    pub fn builtin() -> &'static Latencies {
        static BUILTIN: LazyLock<Latencies> = LazyLock::new(|| {
            Latencies::parse(include_str!("builtin.toml")).unwrap_or_else(|e| panic!("the model that is built in: {e}"))
        });
        &BUILTIN
    }

    /// Reads a model.
    pub fn parse(text: &str) -> Result<Latencies, ModelError> {
        let model: Latencies = toml::from_str(text).map_err(|e| ModelError(e.to_string()))?;
        model.checked()
    }

    /// The model, if all classes have a price and every price is a positive number or 0.
    pub fn checked(self) -> Result<Latencies, ModelError> {
        let model = self;
        let needed = Class::ALL.iter().map(|c| c.name()).chain([OTHER_HELPERS]);
        if let Some(missing) = needed.into_iter().find(|name| !model.cost.contains_key(*name)) {
            return Err(ModelError(format!("it has no price for {missing}")));
        }
        let numbers = |p: &Parameter| [p.chain_ns, p.stream_ns, p.spread_ns];
        match model.cost.iter().find(|(_, p)| numbers(p).iter().any(|n| !n.is_finite() || *n < 0.0)) {
            Some((name, _)) => Err(ModelError(format!("the price for {name} is not a positive number"))),
            None => Ok(model),
        }
    }

    /// The model as text.
    pub fn to_text(&self) -> Result<String, ModelError> {
        toml::to_string_pretty(self).map_err(|e| ModelError(e.to_string()))
    }

    /// Nanoseconds of an instruction; of a branch that is taken with that probability.
    pub fn insn_ns(&self, insn: &Insn, taken: f64) -> f64 {
        match (Class::of(insn), insn) {
            (_, Insn::Call(karakoram_bpf::insn::Callee::Helper(id))) => self.helper_ns(*id, None),
            (Some(Class::Branch), _) => {
                self.class_ns(Class::Branch) * (1.0 - taken) + self.class_ns(Class::BranchTaken) * taken
            }
            (Some(class), _) => self.class_ns(class),
            (None, _) => self.named(OTHER_HELPERS).unwrap_or_default(),
        }
    }

    /// Nanoseconds of a call of a helper, on a map of that type.
    pub fn helper_ns(&self, id: i32, map: Option<MapType>) -> f64 {
        let name = helper::name(id).unwrap_or("other");
        let of_map = map.and_then(|m| self.named(&format!("helper.{name}.{}", m.name())));
        of_map
            .or_else(|| self.named(&format!("helper.{name}")))
            .or_else(|| self.named(OTHER_HELPERS))
            .unwrap_or_default()
    }

    fn class_ns(&self, class: Class) -> f64 {
        self.named(class.name()).unwrap_or_default()
    }

    fn named(&self, name: &str) -> Option<f64> {
        self.cost.get(name).map(Parameter::ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_and_written() {
        let model = Latencies::builtin();
        assert_eq!(&Latencies::parse(&model.to_text().unwrap()).unwrap(), model);
        assert!(Latencies::parse("[provenance]\n").is_err());
        let mut negative = model.clone();
        negative.cost.get_mut("alu").unwrap().chain_ns = -1.0;
        assert!(Latencies::parse(&negative.to_text().unwrap()).is_err());
    }

    #[test]
    fn maps_have_prices_of_their_own() {
        let model = Latencies::builtin();
        let lookup = helper::id("map_lookup_elem").unwrap();
        assert!(model.helper_ns(lookup, Some(MapType::ARRAY)) < model.helper_ns(lookup, Some(MapType::HASH)));
    }
}
