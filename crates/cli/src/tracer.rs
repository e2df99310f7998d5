//! Instructions as they are executed, with the registers that the one before changed.

use karakoram_bpf::insn::FuncId;
use karakoram_bpf::interpreter::Step;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm::{self, Targets};

/// Longest trace that is kept; after that the run goes on without.
const MOST_LINES: usize = 100_000;

/// Writes down one run.
pub struct Tracer {
    texts: Vec<(String, Vec<String>)>,
    registers: Option<[u64; 11]>,
    /// The instructions so far.
    pub lines: Vec<String>,
}

impl Tracer {
    /// For runs of that program.
    pub fn new(program: &Program) -> Tracer {
        let texts = program.functions.iter().enumerate().map(|(i, f)| {
            let lines = asm::lines(program, FuncId(i as u32), Targets::Relative);
            (f.name.clone(), lines.into_iter().map(|l| l.text).collect())
        });
        Tracer { texts: texts.collect(), registers: None, lines: Vec::new() }
    }

    /// To be called before each instruction.
    pub fn step(&mut self, step: &Step) {
        if let (Some(before), Some(last)) = (self.registers, self.lines.last_mut()) {
            for (i, (old, new)) in before.iter().zip(step.registers).enumerate() {
                if old != new {
                    *last += &format!("  ; r{i}={new:#x}");
                }
            }
        }
        self.registers = Some(*step.registers);
        if self.lines.len() < MOST_LINES {
            let (name, texts) = &self.texts[step.function.0 as usize];
            let text = texts.get(step.position).map_or("?", String::as_str);
            self.lines.push(format!("{}{name} {}: {text}", "  ".repeat(step.depth), step.position));
        }
    }
}
