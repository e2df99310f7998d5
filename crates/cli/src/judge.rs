//! The kernel as a judge: does it load, and do two versions behave alike when it runs them?

use crate::bytes;
use crate::failure::Failure;
use crate::input::Input;
use crate::packets;
use crate::scenario::{Case, Setting};
use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::map::MapDef;
use karakoram_bpf::program::{Entry, Program};
use karakoram_elf::Object;
use karakoram_elf::btf::Btf;
use karakoram_elf::link::{self, Target};
use karakoram_kernel::btf::Btf as KernelBtf;
use karakoram_kernel::differential::{Differential, Side};
use karakoram_kernel::effects::{self, Effect};
use karakoram_kernel::load::{self, LoadError, LoadRequest, LoadedProgram};
use karakoram_kernel::map::{MapDetails, MapSet, MapSetOptions};
use karakoram_kernel::run::{RunInput, RunOutput, default_context, shape};
use karakoram_kernel::running;
use std::cell::OnceCell;
use std::collections::HashMap;

/// Entries that hash tables get at most when two versions are compared; see [`MapSetOptions`].
const MOST_ENTRIES: u32 = 4096;

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;

/// The type of programs whose section says none: that of the `tc` command, which goes by any name.
pub const GUESSED_TYPE: ProgramType = ProgramType::SCHED_CLS;

/// The running kernel.
///
/// What binding an object to it takes is read when it is first needed: that is megabytes.
#[derive(Default)]
pub struct Kernel {
    types: OnceCell<Option<Btf>>,
    symbols: OnceCell<HashMap<String, u64>>,
    configuration: OnceCell<HashMap<String, String>>,
    program_type: Option<ProgramType>,
}

/// A program in the kernel, with its maps.
pub struct Loaded {
    /// The program.
    pub program: LoadedProgram,
    /// Its maps.
    pub maps: MapSet,
    /// Its functions, as the kernel numbers them.
    pub functions: Vec<FuncId>,
    /// Whether its type was guessed: its section says none.
    pub is_guess: bool,
    slots: Vec<Slot>,
    _types: Option<KernelBtf>,
}

/// Why there is no program in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The verifier found something.
    Rejected {
        /// What.
        why: String,
        /// Instructions that it processed until then.
        verified: u64,
    },
    /// It was not asked, or not about the program.
    Unchecked(String),
}

impl Refused {
    /// In words.
    pub fn reason(&self) -> &str {
        match self {
            Refused::Rejected { why, .. } | Refused::Unchecked(why) => why,
        }
    }
}

/// The type of programs whose section does not say it.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct TypeOption {
    /// Program type for the kernel, where the section names none: sched_cls, xdp, ...
    #[arg(long = "type", value_name = "TYPE", value_parser = program_type, help_heading = "Input")]
    pub program_type: Option<ProgramType>,
}

fn program_type(name: &str) -> Result<ProgramType, String> {
    ProgramType::from_name(name).ok_or_else(|| "no such program type; `kara doctor` lists them".to_string())
}

/// What running both versions side by side found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Runs {
    /// So many runs, no difference.
    Agree(u64),
    /// A difference.
    Differ(String),
    /// They cannot be compared this way, and why.
    NotCompared(String),
}

impl Kernel {
    /// The name that reports give it.
    pub fn name() -> String {
        format!("Linux {}", running::release())
    }

    /// Finds out whether this process may load programs. Programs whose section says no type have
    /// `program_type`.
    pub fn open(program_type: Option<ProgramType>) -> Result<Kernel, String> {
        let request = LoadRequest::new("kara", ProgramType::SOCKET_FILTER, &load::NOTHING);
        load::load(&request).map_err(|e| e.to_string())?;
        Ok(Kernel { program_type, ..Kernel::default() })
    }

    /// Loads a program of an object.
    pub fn load_object(&self, object: &Object, entry: FuncId) -> Result<Loaded, Refused> {
        let config = |name: &str| self.configuration.get_or_init(running::configuration).get(name).cloned();
        let symbol =
            |name: &str| self.symbols.get_or_init(|| running::symbols().unwrap_or_default()).get(name).copied();
        let types = || running::btf().ok().and_then(|bytes| Btf::parse(&bytes).ok());
        let function = object.program().function(entry);
        let says_type = ProgramType::from_section(&function.section).is_some();
        let is_guess = !says_type && self.program_type.is_none() && matches!(function.entry, Entry::Hook(_));
        let target = Target {
            btf: self.types.get_or_init(types).as_ref(),
            kernel_version: running::version_code(),
            config: Some(&config),
            kernel_symbols: Some(&symbol),
            program_type: self.program_type.or(is_guess.then_some(GUESSED_TYPE)).filter(|_| !says_type),
        };
        let unchecked = |what: String| Refused::Unchecked(format!("it could not be bound to the kernel: {what}"));
        let image = link::link_function(object, entry, &target).map_err(|e| unchecked(e.to_string()))?;
        // Old kernels and unusual types: the program may load without them just as well.
        let types = image.btf.as_deref().and_then(|blob| KernelBtf::load(blob).ok());
        let defs: Vec<MapDef> = image.maps.iter().map(|m| m.def.clone()).collect();
        let details: Vec<MapDetails> = image
            .maps
            .iter()
            .map(|m| MapDetails { types: (m.key_type, m.value_type), extra: m.extra, numa_node: m.numa_node })
            .collect();
        let maps = create_maps(&defs, &details, types.as_ref())?;
        let request = karakoram_lab::object::request(&image, types.as_ref(), &image.slots);
        let program = load::load(&request.with_maps(&maps)).map_err(|e| {
            match refused(e, &|slot| source(&image, slot)) {
                // It may well be right as what it is.
                Refused::Rejected { why, .. } if is_guess => Refused::Unchecked(format!(
                    "its section names no program type (--type says it), and as {} {why}",
                    GUESSED_TYPE.name()
                )),
                refused => refused,
            }
        })?;
        let functions = image.functions.iter().map(|(f, _)| *f).collect();
        Ok(Loaded { program, maps, functions, is_guess, slots: image.slots, _types: types })
    }

    /// Loads a program of whatever was read.
    pub fn load_input(&self, input: &Input, entry: FuncId) -> Result<Loaded, Failure> {
        let loaded = match input.object() {
            Some(object) => self.load_object(object, entry),
            None => self.load_program(input.program()),
        };
        loaded.map_err(|why| {
            Failure::machine(format!("the kernel did not take the program: {}", why.reason()))
                .of_file(&input.path)
                .of_program(&input.program().function(entry).name)
        })
    }

    /// Loads a program that is no object; its first function is the entry.
    pub fn load_program(&self, program: &Program) -> Result<Loaded, Refused> {
        let hook = match program.functions.first().map(|f| &f.entry) {
            Some(Entry::Hook(hook)) => *hook,
            _ => return Err(Refused::Unchecked("its first function has no hook".into())),
        };
        let Some(kind) = hook.program_type() else {
            return Err(Refused::Unchecked(format!("the kernel has no hook that gives a {}", hook.name())));
        };
        let slots = program.to_slots().map_err(|e| Refused::Unchecked(e.to_string()))?;
        let maps = create_maps(&program.maps, &[], None)?;
        let name = &program.functions[0].name;
        let request = LoadRequest::new(name, kind, &slots).with_maps(&maps);
        let loaded = load::load(&request).map_err(|e| refused(e, &|_| None))?;
        let functions = (0..program.functions.len() as u32).map(FuncId).collect();
        Ok(Loaded { program: loaded, maps, functions, is_guess: false, slots, _types: None })
    }
}

impl Loaded {
    /// Puts values into its maps.
    pub fn set(&self, settings: &[Setting]) -> Result<(), Failure> {
        for setting in settings {
            let map = self.maps.named(&setting.map).ok_or_else(|| {
                let names: Vec<&str> = self.maps.maps().iter().map(|m| m.def().name.as_str()).collect();
                setting.no_map(&names)
            })?;
            let keys = setting.keys(map.def()).map_err(|e| Failure::usage(format!("map {}: {e}", setting.map)))?;
            for key in keys {
                map.update(&key, &setting.value).map_err(|e| Failure::usage(e.to_string()))?;
            }
        }
        Ok(())
    }

    /// A case as the kernel takes it.
    pub fn run_input(&self, case: &Case) -> RunInput {
        let mut input = RunInput { data: case.packet.clone(), ..Default::default() };
        if self.program.prog_type == ProgramType::SOCKET_FILTER {
            // The kernel takes an Ethernet header away before the program sees the packet; on a packet
            // socket it would see that header too.
            let header = &case.packet[..case.packet.len().min(ETHERNET_BYTES)];
            input.data.splice(..0, header.iter().copied());
        }
        if shape(self.program.prog_type).is_some_and(|s| s.ctx_out) {
            input.ctx = default_context(self.program.prog_type, case.packet.len());
        }
        bytes::apply(&case.context, &mut input.ctx);
        input
    }

    /// The packet as the program left it.
    pub fn packet_after<'a>(&self, output: &'a RunOutput) -> &'a [u8] {
        // What was put before it comes back as zeros.
        let before = if self.program.prog_type == ProgramType::SOCKET_FILTER { ETHERNET_BYTES } else { 0 };
        &output.data[before.min(output.data.len())..]
    }
}

fn create_maps(defs: &[MapDef], details: &[MapDetails], types: Option<&KernelBtf>) -> Result<MapSet, Refused> {
    let options = MapSetOptions { btf: types, details, mapped: true, most_entries: Some(MOST_ENTRIES) };
    MapSet::create(defs, &options).map_err(|e| Refused::Unchecked(e.to_string()))
}

fn source(image: &link::LoadImage, slot: usize) -> Option<String> {
    let line = image.line(slot)?;
    Some(format!("{}:{}", line.file, line.line))
}

fn refused(error: LoadError, source: &dyn Fn(usize) -> Option<String>) -> Refused {
    match &error {
        LoadError::Rejected(rejection) => {
            let place = rejection.analysis.insn.and_then(source);
            Refused::Rejected {
                why: format!("{error}{}", place.map_or(String::new(), |p| format!(" ({p})"))),
                verified: rejection.analysis.statistics.processed_insns.unwrap_or(0),
            }
        }
        _ => Refused::Unchecked(error.to_string()),
    }
}

/// Runs two versions on the same packets with equal maps.
pub fn run_both(a: &Loaded, b: &Loaded, runs: u64, seed: u64) -> Runs {
    let kind = a.program.prog_type;
    let Some(shape) = shape(kind).filter(|s| s.data) else {
        return Runs::NotCompared(format!("{} programs cannot be run on packets", kind.name()));
    };
    let calls: Vec<_> = effects::of_program(&a.slots).into_iter().chain(effects::of_program(&b.slots)).collect();
    if let Some(call) = calls.iter().find(|c| c.effect == Effect::ReachesOut) {
        return Runs::NotCompared(format!("it calls {}, which reaches out of the program", call.name));
    }
    if let Some(call) = calls.first() {
        return Runs::NotCompared(format!("it calls {}, which gives something else each time", call.name));
    }
    let differ = || {
        let (a, b) = (Side { program: &a.program, maps: &a.maps }, Side { program: &b.program, maps: &b.maps });
        let mut differential = Differential::new(a, b)?;
        for packet in packets::packets(seed).take(runs as usize) {
            let ctx = if shape.ctx_out { default_context(kind, packet.len()) } else { Vec::new() };
            let found = differential.run(&RunInput { data: packet, ctx, ..Default::default() })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        differential.finish()
    };
    match differ() {
        Ok(None) => Runs::Agree(runs),
        Ok(Some(found)) => {
            let what: Vec<String> = found.differences.iter().map(|d| d.to_string()).collect();
            let packet: String = found.input.data.iter().take(64).map(|b| format!("{b:02x}")).collect();
            Runs::Differ(format!("{} (packet of {} bytes: {packet})", what.join("; "), found.input.data.len()))
        }
        Err::<_, karakoram_kernel::error::KernelError>(e) => Runs::NotCompared(e.to_string()),
    }
}
