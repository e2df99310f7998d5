//! A BPF object: a file, the program in it, and what both say about each other.

use crate::btf::Btf;
use crate::btf::ext::BtfExt;
use crate::bytes::{text_at, u32_at};
use crate::container::Container;
use crate::error::ElfError;
use crate::lift::{self, Input, Lifted, Opaque, Origin};
use crate::maps::{self, ObjectMap};
use crate::patches::Patches;
use crate::relocation::{self, RelocationTable};
use crate::rewrite;
use crate::symbol::Symbols;
use karakoram_bpf::program::Program;
use karakoram_proof::apply::Proven;
use std::collections::BTreeMap;

/// A parsed object.
#[derive(Clone, Debug)]
pub struct Object {
    pub(crate) container: Container,
    pub(crate) symbols: Symbols,
    pub(crate) relocations: BTreeMap<usize, RelocationTable>,
    pub(crate) btf: Option<Btf>,
    pub(crate) ext: Option<BtfExt>,
    pub(crate) maps: Vec<ObjectMap>,
    pub(crate) program: Program,
    /// One for each function of the program.
    pub(crate) origins: Vec<Origin>,
    pub(crate) opaque: Vec<Opaque>,
    pub(crate) patches: Patches,
}

impl Object {
    /// Reads an object file.
    pub fn parse(bytes: Vec<u8>) -> Result<Object, ElfError> {
        let container = Container::parse(&bytes)?;
        drop(bytes);
        let symbols = Symbols::parse(&container)?;
        let relocations = relocation::parse(&container, &symbols)?;
        let data = |name| container.find(name).map(|i| container.sections[i].data.as_slice());
        let btf = data(".BTF").map(Btf::parse).transpose()?;
        // Without BTF the extension has no names of sections.
        let ext = data(".BTF.ext").filter(|_| btf.is_some()).map(BtfExt::parse).transpose()?;
        let maps = maps::collect(&container, &symbols, btf.as_ref())?;
        let Lifted { program, origins, opaque, patches } = lift::lift(&Input {
            container: &container,
            symbols: &symbols,
            relocations: &relocations,
            maps: &maps,
            btf: btf.as_ref(),
            ext: ext.as_ref(),
        });
        Ok(Object { container, symbols, relocations, btf, ext, maps, program, origins, opaque, patches })
    }

    /// All functions of the object that are understood, and its maps.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Numbers what the loader puts into instructions as another object does, so that the programs of
    /// both can be compared.
    pub fn number_patches_as(&mut self, other: &Object) {
        self.patches.number_as(&other.patches, &mut self.program);
    }

    /// From now on takes read-only global data to be as it is in the object whenever a program runs: right
    /// when nobody sets it before loading. Data with relocations is left out.
    pub fn assume_constant_data(&mut self) {
        let is_constant = |map: &ObjectMap| map.def.frozen && !self.relocations.contains_key(&map.section);
        let constants = self.maps.iter().enumerate().filter(|(_, m)| is_constant(m)).map(|(i, _)| i);
        self.program.constants = constants.collect();
    }

    /// Code that is kept as it is, and why.
    pub fn opaque(&self) -> &[Opaque] {
        &self.opaque
    }

    /// The object's maps, as [`Program::maps`] numbers them.
    pub fn maps(&self) -> &[ObjectMap] {
        &self.maps
    }

    /// Symbols; `Extern` operands number these.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Types, when the object has them.
    pub fn btf(&self) -> Option<&Btf> {
        self.btf.as_ref()
    }

    /// The license that programs are loaded under; empty when there is none.
    pub fn license(&self) -> &str {
        let section = self.container.find("license").map(|i| &self.container.sections[i].data);
        section.and_then(|d| text_at(d, 0)).unwrap_or("")
    }

    /// The kernel version that old kprobe programs were compiled for.
    pub fn kernel_version(&self) -> Option<u32> {
        u32_at(&self.container.sections[self.container.find("version")?].data, 0)
    }

    /// The file, byte for byte as it was read.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.container.write()
    }

    /// The file with proven code in place of its own. The proof must be about [`Object::program`].
    pub fn write(&self, proven: &Proven) -> Result<Vec<u8>, ElfError> {
        if *proven.original() != self.program {
            return Err(ElfError::Unwritable("the proof is about another program".to_string()));
        }
        self.splice(proven.program())
    }

    /// [`Object::write`] without a proof, for tests of the writer.
    #[cfg(feature = "unproven")]
    pub fn rewrite(&self, program: &Program) -> Result<Vec<u8>, ElfError> {
        self.splice(program)
    }

    fn splice(&self, program: &Program) -> Result<Vec<u8>, ElfError> {
        if *program == self.program {
            return Ok(self.to_bytes());
        }
        rewrite::rewrite(self, program)
    }
}
