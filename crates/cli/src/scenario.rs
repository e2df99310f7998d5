//! What programs are run on: packets from captures, files or the command line, and scenarios, which
//! are TOML files that also say what is in the maps, what comes back, and which packets are typical.
//!
//! ```toml
//! [[map]]                     # before the first run
//! name = "rules"
//! key = "ipv4:10.0.0.1 be16:80"
//! value = "u32:2"             # for maps of CPUs: the value of each
//!
//! [[run]]
//! name = "a flow with a rule"
//! packet = "eth / ipv4 / tcp dst=80"
//! returns = 2                 # a run that returns something else makes `kara run` answer no
//! representative = true       # `kara bench` measures these
//! ```
//!
//! `every = true` instead of a key sets all elements of an array. Runs also take `context` (bytes over
//! the plainest context), `maps` (a list of such settings, made before the run), `fib` (what
//! `bpf_fib_lookup` returns in the interpreter) and `kernel = false` for runs that only make sense there.

use crate::bytes::{self, Patches};
use crate::failure::Failure;
use crate::frame;
use crate::input;
use crate::pcap;
use karakoram_bpf::map::{MapDef, MapType};
use serde::Deserialize;

/// A value for an element of a map, or for all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The map.
    pub map: String,
    /// The element; `None` for every one of an array.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Vec<u8>,
}

/// One run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Case {
    /// What it shows, if somebody said it.
    pub name: Option<String>,
    /// The packet, or what the program gets instead.
    pub packet: Vec<u8>,
    /// Bytes over the plainest context.
    pub context: Patches,
    /// Made before the run.
    pub settings: Vec<Setting>,
    /// What it must return.
    pub returns: Option<u64>,
    /// Whether it is typical of what the program sees.
    pub is_representative: bool,
    /// What `bpf_fib_lookup` returns in the interpreter.
    pub fib: Option<i64>,
    /// It only makes sense in the interpreter.
    pub is_only_interpreted: bool,
}

/// All that a program is run on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scenario {
    /// Made before the first run.
    pub settings: Vec<Setting>,
    /// The runs, in order.
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    map: Vec<SettingText>,
    #[serde(default)]
    run: Vec<RunText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingText {
    name: String,
    key: Option<String>,
    #[serde(default)]
    every: bool,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunText {
    name: Option<String>,
    #[serde(default)]
    packet: String,
    #[serde(default)]
    context: String,
    #[serde(default)]
    maps: Vec<SettingText>,
    returns: Option<i64>,
    #[serde(default)]
    representative: bool,
    fib: Option<i64>,
    kernel: Option<bool>,
}

impl Scenario {
    /// Everything that is named, in order: `hex:BYTES`, `packet:LAYERS`, or files.
    pub fn read(inputs: &[String]) -> Result<Scenario, Failure> {
        let mut all = Scenario::default();
        for input in inputs {
            let one = read_one(input)?;
            all.settings.extend(one.settings);
            all.cases.extend(one.cases);
        }
        Ok(all)
    }

    fn parse(text: &str) -> Result<Scenario, String> {
        let file: FileText = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_string())?;
        let settings = file.map.into_iter().map(setting).collect::<Result<_, _>>()?;
        let cases = file.run.into_iter().enumerate().map(|(number, run)| {
            let name = run.name.clone().unwrap_or_else(|| format!("number {}", number + 1));
            case(run).map_err(|e| format!("run {name}: {e}"))
        });
        Ok(Scenario { settings, cases: cases.collect::<Result<_, _>>()? })
    }
}

fn setting(text: SettingText) -> Result<Setting, String> {
    let wrong = |e: String| format!("map {}: {e}", text.name);
    let key = match (&text.key, text.every) {
        (Some(key), false) => Some(bytes::parse(key).map_err(wrong)?),
        (None, true) => None,
        _ => return Err(wrong("either `key` or `every = true` is needed".to_string())),
    };
    let value = bytes::parse(&text.value).map_err(wrong)?;
    Ok(Setting { map: text.name, key, value })
}

fn case(text: RunText) -> Result<Case, String> {
    let packet = if text.packet.is_empty() { Vec::new() } else { frame::build(&text.packet)? };
    Ok(Case {
        name: text.name,
        packet,
        context: bytes::patches(&text.context)?,
        settings: text.maps.into_iter().map(setting).collect::<Result<_, _>>()?,
        // Programs return 32 bits; -1 is what people write for the largest of them.
        returns: text.returns.map(|n| n as u32 as u64),
        is_representative: text.representative,
        fib: text.fib,
        is_only_interpreted: text.kernel == Some(false),
    })
}

fn read_one(input: &str) -> Result<Scenario, Failure> {
    let alone = |packet: Vec<u8>| Scenario { cases: vec![Case { packet, ..Case::default() }], ..Scenario::default() };
    let wrong = |e: String| Failure::usage(format!("--input {input}: {e}"));
    if let Some(text) = input.strip_prefix("hex:") {
        return bytes::hex(text).map(alone).map_err(wrong);
    }
    if let Some(text) = input.strip_prefix("packet:") {
        return frame::build(text).map(alone).map_err(wrong);
    }
    let content = input::read_bytes(input)?;
    if pcap::is_capture(&content) {
        let packets = pcap::packets(&content).map_err(|e| Failure::input(e).of_file(input))?;
        let cases = packets.into_iter().map(|packet| Case { packet, ..Case::default() });
        return Ok(Scenario { cases: cases.collect(), ..Scenario::default() });
    }
    let text = std::str::from_utf8(&content);
    if input.ends_with(".toml") {
        let text = text.map_err(|_| Failure::input("this is not text").of_file(input))?;
        return Scenario::parse(text).map_err(|e| Failure::input(e).of_file(input));
    }
    match text.map(bytes::hex) {
        Ok(Ok(packet)) => Ok(alone(packet)),
        _ => Ok(alone(content)),
    }
}

impl Setting {
    /// That the program has no such map, with those that it has.
    pub fn no_map(&self, names: &[&str]) -> Failure {
        Failure::usage(format!("there is no map {}", self.map)).help(format!("it has: {}", names.join(", ")))
    }

    /// The keys it is about.
    pub fn keys(&self, def: &MapDef) -> Result<Vec<Vec<u8>>, String> {
        match &self.key {
            Some(key) => Ok(vec![key.clone()]),
            None if matches!(def.kind, MapType::ARRAY | MapType::PERCPU_ARRAY) => {
                Ok((0..def.max_entries).map(|i| i.to_le_bytes().to_vec()).collect())
            }
            None => Err("only the elements of an array can all be set".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[map]]
        name = "m"
        key = "u32:1"
        value = "u64:7"
        [[run]]
        name = "first"
        packet = "eth / ipv4 / tcp"
        context = "@8 u32:5"
        returns = -1
        representative = true
        maps = [{ name = "a", every = true, value = "u8:1" }]
        [[run]]
        kernel = false
    "#;

    #[test]
    fn a_scenario_is_read() {
        let scenario = Scenario::parse(TEXT).unwrap();
        assert_eq!(scenario.settings[0].key.as_deref(), Some(&[1, 0, 0, 0][..]));
        let [first, second] = &scenario.cases[..] else { panic!("{:?}", scenario.cases) };
        assert_eq!((first.packet.len(), first.returns), (54, Some(0xffff_ffff)));
        assert!(first.is_representative && first.settings[0].key.is_none());
        assert_eq!(first.context, [(8, vec![5, 0, 0, 0])]);
        assert!(second.is_only_interpreted && second.packet.is_empty());
    }

    #[test]
    fn mistakes_say_where() {
        let error = |text: &str| Scenario::parse(text).unwrap_err();
        assert!(error("[[run]]\nname = 'x'\npacket = 'eth / foo'").starts_with("run x: `foo`"));
        assert!(error("[[map]]\nname = 'm'\nvalue = 'u8:1'").starts_with("map m: "));
        assert!(error("[[runs]]").contains("unknown field"));
    }
}
