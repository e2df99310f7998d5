//! Programs of an object in the kernel, all sharing the object's maps.

use crate::error::LabError;
use karakoram_bpf::encode::Slot;
use karakoram_elf::Object;
use karakoram_elf::btf::Btf;
use karakoram_elf::link::{self, LoadImage, Target};
use karakoram_kernel::btf::Btf as KernelBtf;
use karakoram_kernel::error::KernelError;
use karakoram_kernel::load::{self, LoadError, LoadRequest, LoadedProgram};
use karakoram_kernel::map::{Map, MapOptions};
use karakoram_kernel::running;
use karakoram_kernel::sys::Mapping;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// An object in the kernel: its maps, and the programs of it that were asked for.
pub struct Loaded {
    maps: Vec<Map>,
    programs: BTreeMap<String, LoadedProgram>,
}

/// Programs of an object that are about to be loaded; their maps are there already.
pub struct Linked {
    path: PathBuf,
    names: Vec<String>,
    images: Vec<LoadImage>,
    maps: Vec<Map>,
}

/// Loads these programs of an object.
pub fn load(path: &Path, programs: &[&str]) -> Result<Loaded, LabError> {
    link(path, programs)?.load()
}

/// Makes the maps of these programs of an object.
pub fn link(path: &Path, programs: &[&str]) -> Result<Linked, LabError> {
    let bytes = std::fs::read(path).map_err(|e| LabError::file("read", path, &e))?;
    link_bytes(path, bytes, programs)
}

/// The same of an object that was read already, from this file.
pub fn link_bytes(path: &Path, bytes: Vec<u8>, programs: &[&str]) -> Result<Linked, LabError> {
    let object = Object::parse(bytes).map_err(|e| unusable(path, &e))?;
    let target = Target {
        btf: kernel_types(),
        kernel_version: running::version_code(),
        config: None,
        kernel_symbols: None,
        program_type: None,
    };
    let images = programs.iter().map(|name| link::link(&object, name, &target)).collect::<Result<Vec<_>, _>>();
    let images = images.map_err(|e| unusable(path, &e))?;
    let maps = create_maps(&images).map_err(|e| unusable(path, &e))?;
    Ok(Linked { path: path.into(), names: programs.iter().map(|n| n.to_string()).collect(), images, maps })
}

impl Linked {
    /// A map of the object.
    pub fn map(&self, name: &str) -> Result<&Map, LabError> {
        map_named(&self.maps, name)
    }

    /// Loads the programs.
    pub fn load_programs(&self) -> Result<BTreeMap<String, LoadedProgram>, LabError> {
        let one = |(name, loaded): (&str, Result<LoadedProgram, LoadError>)| {
            Ok((name.to_string(), loaded.map_err(|e| unusable(&self.path, &e))?))
        };
        self.load_each().map(one).collect()
    }

    /// Loads one program after the other, whatever the kernel says to each.
    pub fn load_each(&self) -> impl Iterator<Item = (&str, Result<LoadedProgram, LoadError>)> {
        self.names.iter().zip(&self.images).map(|(name, image)| (name.as_str(), load_image(image, &self.maps)))
    }

    /// Together with programs that were loaded.
    pub fn with(self, programs: BTreeMap<String, LoadedProgram>) -> Loaded {
        Loaded { maps: self.maps, programs }
    }

    fn load(self) -> Result<Loaded, LabError> {
        let programs = self.load_programs()?;
        Ok(self.with(programs))
    }
}

fn map_named<'a>(maps: &'a [Map], name: &str) -> Result<&'a Map, LabError> {
    maps.iter().find(|m| m.def().name == name).ok_or_else(|| {
        let there: Vec<&str> = maps.iter().map(|m| m.def().name.as_str()).collect();
        LabError::Request(format!("the object has no map {name}, but {}", there.join(", ")))
    })
}

/// Names of the programs in an object.
pub fn programs(path: &Path) -> Result<Vec<String>, LabError> {
    let bytes = std::fs::read(path).map_err(|e| LabError::file("read", path, &e))?;
    let object = Object::parse(bytes).map_err(|e| unusable(path, &e))?;
    Ok(link::programs(&object).map(|(_, name)| name.to_string()).collect())
}

impl Loaded {
    /// A program that was asked for. Panics when it was not.
    pub fn program(&self, name: &str) -> &LoadedProgram {
        &self.programs[name]
    }

    /// The maps that the programs use.
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    /// A map of the object.
    pub fn map(&self, name: &str) -> Result<&Map, LabError> {
        map_named(&self.maps, name)
    }

    /// The memory of an array of the object, shared with the kernel.
    pub fn mapping(&self, name: &str) -> Result<&Mapping, LabError> {
        self.map(name)?.mapping().ok_or_else(|| {
            let what = format!("this kernel does not map array {name} into the process");
            LabError::Machine(what, "Linux 5.5 or later does".into())
        })
    }
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> LabError {
    LabError::Machine(format!("{}: {why}", path.display()), "`kara doctor` says what this kernel permits".into())
}

/// Types of the running kernel, where they can be had; read once, they are megabytes.
pub fn kernel_types() -> Option<&'static Btf> {
    static TYPES: OnceLock<Option<Btf>> = OnceLock::new();
    TYPES.get_or_init(|| Btf::parse(&running::btf().ok()?).ok()).as_ref()
}

/// The maps of all the programs, each once.
fn create_maps(images: &[LoadImage]) -> Result<Vec<Map>, KernelError> {
    let mut maps: Vec<Map> = Vec::new();
    for image in images {
        let types = types_of(image);
        for map in &image.maps {
            if maps.iter().any(|m| m.def().name == map.def.name) {
                continue;
            }
            let numbers = (map.key_type, map.value_type);
            let options = MapOptions {
                types: types.as_ref().filter(|_| numbers != (0, 0)).map(|btf| (btf, numbers.0, numbers.1)),
                extra: map.extra,
                numa_node: map.numa_node,
                mapped: true,
                ..Default::default()
            };
            maps.push(Map::create(&map.def, options)?);
        }
    }
    Ok(maps)
}

/// Old kernels: the program may load without its types just as well.
fn types_of(image: &LoadImage) -> Option<KernelBtf> {
    KernelBtf::load(image.btf.as_deref()?).ok()
}

fn load_image(image: &LoadImage, maps: &[Map]) -> Result<LoadedProgram, LoadError> {
    let types = types_of(image);
    let slots = renumbered(image, maps);
    load::load(&LoadRequest { maps, ..request(image, types.as_ref(), &slots) })
}

/// What the kernel is asked to load for an image, without maps. Information about functions and lines goes with
/// the types, where the kernel takes those.
pub fn request<'a>(image: &'a LoadImage, types: Option<&'a KernelBtf>, slots: &'a [Slot]) -> LoadRequest<'a> {
    LoadRequest {
        expected_attach_type: image.expected_attach_type,
        attach_btf_id: image.attach_btf_id,
        license: &image.license,
        btf: types,
        func_info: if types.is_some() { &image.func_info } else { &[] },
        func_info_rec_size: image.func_info_record_bytes,
        line_info: if types.is_some() { &image.line_info } else { &[] },
        line_info_rec_size: image.line_info_record_bytes,
        flags: image.flags,
        kern_version: image.kernel_version,
        ..LoadRequest::new(&image.name, image.program_type, slots)
    }
}

/// The instructions with maps numbered as in the common set.
fn renumbered(image: &LoadImage, maps: &[Map]) -> Vec<Slot> {
    const LOAD_IMM64: u8 = 0x18;
    const MAP_NUMBERS: [u8; 2] = [5, 6];
    let mut slots = image.slots.clone();
    let mut at = 0;
    while let Some(slot) = slots.get_mut(at) {
        at += if slot.code == LOAD_IMM64 { 2 } else { 1 };
        if slot.code == LOAD_IMM64 && MAP_NUMBERS.contains(&slot.src) {
            let name = &image.maps[slot.imm as usize].def.name;
            let number = maps.iter().position(|m| m.def().name == *name);
            slot.imm = number.expect("the common set has all maps") as i32;
        }
    }
    slots
}
