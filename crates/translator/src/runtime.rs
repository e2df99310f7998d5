//! A module put together: programs, functions, machines, and the runtime around them.

mod blocks;
mod calls;
mod maps;
mod packet;
mod support;

use crate::debug::{Debug, Param};
use crate::error::TranslateError;
use crate::function::{self, Emitter};
use crate::graph::{Entry, Form, Plan};
use crate::hook::Hook;
use crate::layout::{self, control};
use crate::manifest::{Exported, IMAGE_SECTION, Manifest, Program, SECTION, Site};
use crate::module::Module;
use crate::{Options, Translation};
pub(crate) use maps::Operation;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Version of the layout and the manifest.
const VERSION: u32 = 1;
/// Type number of arena maps.
const ARENA: u32 = 33;
/// `BPF_F_MMAPABLE`.
const MAPPABLE: u32 = 1 << 10;

/// The text of an object.
struct Assembler<'a> {
    module: &'a Module<'a>,
    plan: &'a Plan,
    options: &'a Options,
    out: String,
    debug: Debug,
    sites: Vec<Site>,
    /// Bytes of the records of members of machines.
    records: BTreeMap<u32, usize>,
    /// Maps of the kernel that are used, by number.
    used_maps: BTreeSet<usize>,
}

/// Puts a module together.
pub(crate) fn assemble(module: &Module, plan: &Plan, options: &Options) -> Result<Translation, TranslateError> {
    let mut assembler = Assembler {
        module,
        plan,
        options,
        out: String::new(),
        debug: Debug::new(),
        sites: Vec::new(),
        records: BTreeMap::new(),
        used_maps: BTreeSet::new(),
    };
    assembler.functions()?;
    for machine in 0..plan.machines.len() {
        assembler.machine(machine)?;
    }
    for (number, entry) in plan.entries.iter().enumerate() {
        assembler.program(number, entry);
    }
    assembler.place_records();
    assembler.map_functions();
    assembler.runtime();
    Ok(assembler.finish())
}

fn param_of(hook: Hook) -> Param {
    match hook {
        Hook::Xdp => Param::Xdp,
        Hook::Tc | Hook::Cgroup => Param::Tc,
        // Nothing of it but the program itself is handed the context.
        _ => Param::Words,
    }
}

impl Assembler<'_> {
    fn functions(&mut self) -> Result<(), TranslateError> {
        for (number, form) in &self.plan.forms {
            if matches!(form, Form::Machine(_)) {
                continue;
            }
            for hook in self.plan.instances(*number) {
                let in_arena = [&self.options.in_arena, &self.options.stack_in_arena];
                let has_own = self.options.has_own_stacks && in_arena.iter().all(|numbers| !numbers.contains(number));
                let is_inline = *form == Form::Inline;
                if !has_own || !self.emit(hook, is_inline, |emitter| emitter.function(*number, true))? {
                    self.emit(hook, is_inline, |emitter| emitter.function(*number, false))?;
                }
            }
        }
        Ok(())
    }

    fn machine(&mut self, machine: usize) -> Result<(), TranslateError> {
        let hooks: Vec<Option<Hook>> = match self.plan.machine_is_by_hook(machine) {
            true => {
                let members = self.plan.machines[machine].iter();
                let mut hooks: Vec<Hook> = members.flat_map(|m| self.plan.hooks[m].iter().copied()).collect();
                hooks.sort_unstable();
                hooks.dedup();
                hooks.into_iter().map(Some).collect()
            }
            false => vec![None],
        };
        for hook in hooks {
            if self.plan.fused.contains(&machine) {
                let mut records = BTreeMap::new();
                self.emit(hook, false, |emitter| emitter.fused_machine(machine, &mut records).map(Some))?;
                self.records.extend(records);
                continue;
            }
            for member in &self.plan.machines[machine] {
                let mut bytes = 0;
                self.emit(hook, false, |emitter| {
                    let (head, text, size) = emitter.member(machine, *member)?;
                    bytes = size;
                    Ok(Some((head, text)))
                })?;
                self.records.insert(*member, bytes);
            }
            self.emit(hook, false, |emitter| emitter.machine(machine).map(Some))?;
        }
        Ok(())
    }

    /// Puts sizes of records where they are wanted, now that all are known.
    fn place_records(&mut self) {
        for (number, bytes) in &self.records {
            self.out = self.out.replace(&function::size_mark(*number), &bytes.to_string());
        }
    }

    /// Writes a function; false when it cannot be written like that.
    fn emit(
        &mut self,
        hook: Option<Hook>,
        is_inline: bool,
        write: impl FnOnce(Emitter) -> Result<Option<(crate::function::Head, String)>, TranslateError>,
    ) -> Result<bool, TranslateError> {
        // The location of calls must be known before the parameters are: two steps.
        let (place, sites) = (self.debug.reserve(), self.sites.len());
        let emitter = Emitter::new(self.module, self.plan, self.options, hook, place, &mut self.sites);
        let Some((head, text)) = write(emitter)? else {
            self.sites.truncate(sites);
            return Ok(false);
        };
        let params: Vec<Param> = head
            .params
            .iter()
            .map(|p| if p.starts_with("ptr") { hook.map_or(Param::Number, param_of) } else { Param::Number })
            .collect();
        let name = head.name.trim_start_matches('@');
        let function = self.debug.function(name, &params, false, place);
        let (linkage, attributes) = if is_inline { ("internal ", "#1") } else { ("", "#0") };
        let _ = writeln!(
            self.out,
            "define {linkage}i64 {}({}) {attributes} !dbg !{function} {{\n{text}}}\n",
            head.name,
            head.params.join(", ")
        );
        Ok(true)
    }

    /// A program: finds its region, lets nobody in twice, calls the user's function. The verifier knows how many
    /// processors there are, and so where regions are; what it must not know is mixed with what says that nobody
    /// is there, which is zero.
    fn program(&mut self, number: usize, entry: &Entry) {
        let place = self.debug.reserve();
        let function = self.debug.function(&entry.name, &[param_of(entry.hook)], true, place);
        let count = self.plan.entries.len();
        let cast = |what: &str| format!("call ptr asm \"$0 = addr_space_cast($0, 0x0, 0x1)\", \"=r,0\"(i64 {what}) #2");
        let call = self.entry_call(entry, place);
        let (leave_nested, leave) = ways_out(entry);
        let _ = writeln!(
            self.out,
            "define dso_local i32 @{name}(ptr %ctx) #0 section \"{section}\" !dbg !{function} {{
  call void asm sideeffect \"\", \"r\"(ptr @arena)
  %cpu = call i64 inttoptr (i64 8 to ptr)()
  %offset = mul i64 %cpu, {stride}
  %region = add i64 %offset, {first}
  %control = {cast}
  %busyp = getelementptr i8, ptr %control, i64 {busy}
  %busy = load i64, ptr %busyp, align 8
  %place = call i64 asm sideeffect \"$0 ^= $2\", \"=r,0,r\"(i64 %region, i64 %busy)
  %isbusy = icmp ne i64 %busy, 0
  br i1 %isbusy, label %nested, label %free, !prof !99999
nested:
  %nestedp = getelementptr i8, ptr %control, i64 {nested}
  %n = load i64, ptr %nestedp, align 8
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %nestedp, align 8
  {leave_nested}
free:
  store volatile i64 1, ptr %busyp, align 8
  %heapp = getelementptr i8, ptr %control, i64 {heap}
  %heap = add i64 %place, {heap_low}
  store i64 %heap, ptr %heapp, align 8
  %sp = add i64 %place, {stack}
{arguments}{call}
  %heldp = getelementptr i8, ptr %control, i64 {held}
  %held = load i64, ptr %heldp, align 8
  %leaks = icmp ne i64 %held, 0
  br i1 %leaks, label %leaked, label %done, !prof !99999
leaked:
  call i64 @kara_leaked(i64 %sp), !dbg !{place}
  br label %done
done:
{results}  store volatile i64 0, ptr %busyp, align 8
  {leave}
}}
",
            name = entry.name,
            section = entry.section(),
            arguments = arguments(entry),
            results = entry.hook.copy_out(control::ARGUMENTS),
            stride = count * layout::REGION_BYTES as usize,
            first = layout::REGIONS_AT as usize + number * layout::REGION_BYTES as usize,
            cast = cast("%region"),
            busy = control::BUSY,
            nested = control::NESTED,
            heap = control::HEAP,
            heap_low = layout::HEAP_LOW,
            stack = layout::STACK_TOP,
            held = control::HELD,
        );
    }

    /// The call of the user's function, in whatever form that is.
    fn entry_call(&mut self, entry: &Entry, place: usize) -> String {
        let hook = Some(entry.hook);
        let mut emitter = Emitter::new(self.module, self.plan, self.options, hook, place, &mut self.sites);
        emitter.start_at("%sp");
        let value = emitter.call_function(entry.function);
        emitter.text.line(format!("%verdict = add i64 {value}, 0"));
        // The program returns 32 bits.
        emitter.text.finish().replacen("entry:\n", "", 1).replace("ret i64 0", "ret i32 0")
    }

    fn finish(mut self) -> Translation {
        let manifest = self.manifest();
        let json = serde_json::to_string(&manifest).expect("plain data");
        let image = self.image();
        let throw = self.debug.kernel_function("bpf_throw");
        let ir = format!(
            "target datalayout = \"e-m:e-p:64:64-i64:64-i128:128-n32:64-S128\"\ntarget triple = \"bpfel\"\n\n\
             @arena = dso_local global {{ i32, i32, i32, i32, i32 }} {{ i32 {ARENA}, i32 0, i32 0, i32 1048576, i32 {MAPPABLE} }}, section \"maps\", align 4\n{}\
             @_license = dso_local constant [13 x i8] c\"Dual MIT/GPL\\00\", section \"license\", align 1\n\
             @kara_manifest = dso_local constant {}, section \"{SECTION}\", align 1\n\
             @kara_image = dso_local constant {}, section \"{IMAGE_SECTION}\", align 4\n\
             declare !dbg !{throw} void @bpf_throw(i64) section \".ksyms\"\n{}\n{}\n\
             attributes #0 = {{ noinline nounwind \"no-jump-tables\"=\"true\" \"no-builtins\" }}\n\
             attributes #1 = {{ alwaysinline nounwind \"no-jump-tables\"=\"true\" \"no-builtins\" }}\n\
             attributes #2 = {{ nounwind memory(none) }}\n\
             {}!99999 = !{{!\"branch_weights\", i32 1, i32 100000}}\n",
            self.map_definitions(),
            string(json.as_bytes()),
            string(&image),
            support::INTRINSICS,
            self.out,
            self.debug.finish(),
        );
        let entries = self.plan.entries.iter().map(|e| (e.name.clone(), e.function)).collect();
        Translation { ir, manifest, entries }
    }

    fn manifest(&mut self) -> Manifest {
        let programs = self.plan.entries.iter().map(|e| Program {
            name: e.name.clone(),
            hook: e.hook.name().to_string(),
            target: e.target.as_ref().map(|(target, _)| target.clone()),
            on_panic: e.on_panic,
            needs: crate::needs::of(self.module, self.plan, self.options, e.function),
        });
        let exported = self.module.exported_globals.iter().filter_map(|(export, global)| {
            let name = export.strip_prefix("kara_static_")?;
            let (kind, name) = name.split_once('_')?;
            let address = self.module.globals[*global as usize].value as u32;
            Some(Exported { name: name.to_string(), kind: kind.to_string(), address })
        });
        let mut sites = std::mem::take(&mut self.sites);
        crate::source::locate(self.module, &mut sites);
        Manifest {
            version: VERSION,
            memory_end: self.module.memory_end,
            programs: programs.collect(),
            exported: exported.collect(),
            maps: self.used_maps.iter().map(|number| self.plan.maps[*number].clone()).collect(),
            sites,
        }
    }

    fn image(&self) -> Vec<u8> {
        let mut image = Vec::new();
        for (address, bytes) in &self.module.data {
            image.extend(address.to_le_bytes());
            image.extend((bytes.len() as u32).to_le_bytes());
            image.extend(*bytes);
        }
        image
    }
}

/// How a program returns when it runs already, and after a run. Where not every number is a verdict the verifier is
/// shown that this is one, in one place behind all ways: on each it would be made to forget.
fn ways_out(entry: &Entry) -> (String, String) {
    let verdict = entry.on_panic;
    match entry.hook.verdict_bits() {
        None => (format!("ret i32 {verdict}"), "%short = trunc i64 %verdict to i32\n  ret i32 %short".to_string()),
        Some(bits) => (
            "br label %out".to_string(),
            format!(
                "br label %out\nout:\n  %any = phi i64 [ {verdict}, %nested ], [ %verdict, %done ]\n  %bits = {}\n  \
                 %short = trunc i64 %bits to i32\n  ret i32 %short",
                function::low_bits(bits, "%any")
            ),
        ),
    }
}

/// Puts where the program finds it what it is given of its context, and the arguments of a tracepoint. Some of these
/// are pointers to the verifier; in the arena they are numbers.
fn arguments(entry: &Entry) -> String {
    let mut text = entry.hook.copy_in(control::ARGUMENTS);
    for n in 0..entry.target.as_ref().map_or(0, |(_, count)| (*count).min(control::MOST_ARGUMENTS)) {
        let (from, to) = (8 * n, control::ARGUMENTS + 8 * n);
        let _ = write!(
            text,
            "  %from{n} = getelementptr i8, ptr %ctx, i64 {from}\n  %argument{n} = load volatile i64, ptr %from{n}, align 8\n  \
             %to{n} = getelementptr i8, ptr %control, i64 {to}\n  store volatile i64 %argument{n}, ptr %to{n}, align 8\n"
        );
    }
    text
}

/// An array of bytes as LLVM writes it.
fn string(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "[1 x i8] zeroinitializer".to_string();
    }
    let mut text = format!("[{} x i8] c\"", bytes.len());
    for byte in bytes {
        match byte {
            b' ' | b'!' | b'#'..=b'[' | b']'..=b'~' => text.push(*byte as char),
            _ => {
                let _ = write!(text, "\\{byte:02X}");
            }
        }
    }
    text + "\""
}
