//! Debug information, of which `llc` makes the BTF that the kernel needs: functions with the types of
//! their parameters.

use std::fmt::Write;

/// Metadata of a module.
pub(crate) struct Debug {
    text: String,
    next: usize,
}

/// Types of parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Param {
    /// A number of 64 bits.
    Number,
    /// The context of an XDP program.
    Xdp,
    /// The context of a tc program.
    Tc,
    /// Words: the arguments of a tracepoint.
    Words,
}

impl Param {
    /// Number of its type's node.
    fn node(self) -> usize {
        match self {
            Param::Number => NUMBER,
            Param::Xdp => XDP,
            Param::Tc => TC,
            Param::Words => WORDS,
        }
    }
}

/// Numbers of fixed nodes.
const UNIT: usize = 0;
const FILE: usize = 3;
const NUMBER: usize = 4;
const INT: usize = 5;
const XDP: usize = 8;
const TC: usize = 11;
const WORDS: usize = 12;
const FIRST_FREE: usize = 13;

impl Debug {
    pub fn new() -> Debug {
        let text = format!(
            "!llvm.dbg.cu = !{{!0}}\n!llvm.module.flags = !{{!1, !2}}\n\
             !0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !{FILE}, producer: \"kara\", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)\n\
             !1 = !{{i32 2, !\"Debug Info Version\", i32 3}}\n!2 = !{{i32 7, !\"Dwarf Version\", i32 5}}\n\
             !{FILE} = !DIFile(filename: \"extension\", directory: \"/\")\n\
             !{NUMBER} = !DIBasicType(name: \"unsigned long\", size: 64, encoding: DW_ATE_unsigned)\n\
             !{INT} = !DIBasicType(name: \"int\", size: 32, encoding: DW_ATE_signed)\n\
             !{WORDS} = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !{NUMBER}, size: 64)\n\
             {}{}",
            context(6, "xdp_md"),
            context(9, "__sk_buff"),
        );
        Debug { text, next: FIRST_FREE }
    }

    fn node(&mut self, content: &str) -> usize {
        let number = self.next;
        self.next += 1;
        let _ = writeln!(self.text, "!{number} = {content}");
        number
    }

    /// A number for the place of the calls of a function that is described later.
    pub fn reserve(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// A function; returns the number of its node. Its calls are at `place`.
    pub fn function(&mut self, name: &str, params: &[Param], returns_int: bool, place: usize) -> usize {
        let ty = self.prototype(params, if returns_int { INT } else { NUMBER });
        let (function, named) = (self.reserve(), self.reserve());
        // The kernel wants parameters to have names.
        let names: Vec<String> = params
            .iter()
            .enumerate()
            .map(|(i, param)| {
                let (number, ty) = (i + 1, param.node());
                let node = self.node(&format!(
                    "!DILocalVariable(name: \"a{i}\", arg: {number}, scope: !{function}, file: !{FILE}, line: 1, type: !{ty})"
                ));
                format!("!{node}")
            })
            .collect();
        let _ = writeln!(self.text, "!{named} = !{{{}}}", names.join(", "));
        let _ = writeln!(
            self.text,
            "!{function} = distinct !DISubprogram(name: \"{name}\", scope: !{FILE}, file: !{FILE}, line: 1, type: !{ty}, scopeLine: 1, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{UNIT}, retainedNodes: !{named})"
        );
        let _ = writeln!(self.text, "!{place} = !DILocation(line: 1, column: 1, scope: !{function})");
        function
    }

    /// A function of the kernel that returns nothing and takes a number.
    pub fn kernel_function(&mut self, name: &str) -> usize {
        let types = self.node(&format!("!{{null, !{NUMBER}}}"));
        let ty = self.node(&format!("!DISubroutineType(types: !{types})"));
        self.node(&format!(
            "!DISubprogram(name: \"{name}\", scope: !{FILE}, file: !{FILE}, line: 1, type: !{ty}, flags: DIFlagPrototyped, spFlags: DISPFlagOptimized)"
        ))
    }

    fn prototype(&mut self, params: &[Param], result: usize) -> usize {
        let mut types = format!("!{{!{result}");
        for param in params {
            let _ = write!(types, ", !{}", param.node());
        }
        let types = self.node(&format!("{types}}}"));
        self.node(&format!("!DISubroutineType(types: !{types})"))
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// A structure with one member, and a pointer to it: only its name counts.
fn context(first: usize, name: &str) -> String {
    let (members, structure, pointer) = (first, first + 1, first + 2);
    let member = 100_000 + first;
    format!(
        "!{members} = !{{!{member}}}\n\
         !{member} = !DIDerivedType(tag: DW_TAG_member, name: \"first\", scope: !{structure}, file: !{FILE}, line: 1, baseType: !{INT}, size: 32)\n\
         !{structure} = distinct !DICompositeType(tag: DW_TAG_structure_type, name: \"{name}\", file: !{FILE}, line: 1, size: 32, elements: !{members})\n\
         !{pointer} = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !{structure}, size: 64)\n"
    )
}
