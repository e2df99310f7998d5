//! The variants of an experiment.

use super::{Definition, merged};
use crate::trial::Parameters;
use toml::{Table, Value};

/// Values of parameters that are combined, in the order of the text.
pub type Matrix = toml::map::Map<String, Value>;

/// A variant with all of its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub parameters: Parameters,
}

impl Variant {
    /// The same with other parameters put over its own.
    pub fn over(&self, parameters: &Table) -> Variant {
        Variant { name: self.name.clone(), parameters: self.parameters.with(parameters) }
    }
}

/// All variants that a definition makes, the baseline first.
pub fn all(definition: &Definition) -> Result<Vec<Variant>, String> {
    let named = definition.variants.iter().map(|v| (v.name.clone(), v.parameters.clone()));
    let made = combinations(&definition.matrix)?;
    let variant = |(name, own): (String, Table)| Variant { name, parameters: merged(definition, &own) };
    let mut all: Vec<Variant> = named.chain(made).map(variant).collect();
    for (place, one) in all.iter().enumerate() {
        if all[..place].iter().any(|other| other.name == one.name) {
            return Err(format!("there are two variants `{}`", one.name));
        }
    }
    let baseline = match &definition.baseline {
        None => 0,
        Some(name) => {
            all.iter().position(|v| v.name == *name).ok_or_else(|| format!("there is no variant `{name}`"))?
        }
    };
    if all.is_empty() {
        return Err("it has no variants".to_string());
    }
    all[..=baseline].rotate_right(1);
    Ok(all)
}

fn combinations(matrix: &Matrix) -> Result<Vec<(String, Table)>, String> {
    let mut all: Vec<(Vec<String>, Table)> = vec![(Vec::new(), Table::new())];
    for (parameter, values) in matrix {
        let values = values.as_array().ok_or_else(|| format!("matrix: `{parameter}` is no list of values"))?;
        let with = |(words, own): &(Vec<String>, Table), value: &Value| {
            let (mut words, mut own) = (words.clone(), own.clone());
            words.push(shown(value));
            own.insert(parameter.clone(), value.clone());
            (words, own)
        };
        all = all.iter().flat_map(|one| values.iter().map(move |v| with(one, v))).collect();
    }
    Ok(all.into_iter().filter(|(words, _)| !words.is_empty()).map(|(words, own)| (words.join(" "), own)).collect())
}

/// A value as a word of a name.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is_so) => is_so.to_string(),
        other => format!("{other:?}"),
    }
}
