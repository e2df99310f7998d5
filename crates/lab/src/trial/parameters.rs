//! Parameters of trials, as an experiment gives them.

use crate::error::LabError;
use serde::de::DeserializeOwned;
use toml::Table;

/// Parameters of one variant.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Parameters(Table);

impl Parameters {
    /// Those of a table.
    pub fn new(table: Table) -> Parameters {
        Parameters(table)
    }

    /// Reads `key = value` lines.
    pub fn parse(text: &str) -> Result<Parameters, LabError> {
        text.parse().map(Parameters).map_err(|e| LabError::Request(format!("parameters: {e}")))
    }

    /// These, with `others` put over them.
    pub fn with(&self, others: &Table) -> Parameters {
        let mut table = self.0.clone();
        table.extend(others.clone());
        Parameters(table)
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.0
    }

    /// Reads them into a structure of the kind's own, which should deny unknown fields.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, LabError> {
        let read = T::deserialize(self.0.clone());
        read.map_err(|e| LabError::Request(format!("parameters: {}", e.to_string().trim_end())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, PartialEq, Debug)]
    #[serde(deny_unknown_fields)]
    struct Mine {
        hook: String,
        #[serde(default)]
        packets: u64,
    }

    #[test]
    fn later_ones_win_and_unknown_ones_are_mistakes() {
        let common = Parameters::parse("hook = 'xdp'\npackets = 7").unwrap();
        let variant = common.with(Parameters::parse("hook = 'tc'").unwrap().table());
        assert_eq!(variant.read::<Mine>().unwrap(), Mine { hook: "tc".into(), packets: 7 });
        let wrong = common.with(Parameters::parse("hok = 'tc'").unwrap().table());
        assert!(wrong.read::<Mine>().unwrap_err().to_string().contains("hok"));
    }
}
