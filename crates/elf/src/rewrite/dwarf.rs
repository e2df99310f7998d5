//! DWARF of code that was changed: left out.
//!
//! It says by address where functions, blocks and source lines are, and by address and register where
//! variables are: of the code of the input. Addresses could follow; that a variable was in `r7` cannot,
//! where `r7` holds something else now. Half of it would be wrong in a way that nobody notices. Source
//! lines are also in `.BTF.ext`, which hangs on instructions and follows them, and which the kernel, bpftool
//! and perf use; no loader reads DWARF.

use crate::container::Container;

/// Whether a section is DWARF, or relocations of it.
pub(super) fn is_dwarf(name: &str) -> bool {
    let name = name.strip_prefix(".rela").or_else(|| name.strip_prefix(".rel")).unwrap_or(name);
    name.starts_with(".debug_")
}

/// Empties all DWARF sections. They stay, so that the numbers of sections and symbols do.
pub(super) fn leave_out(container: &mut Container) {
    container.sections.iter_mut().filter(|s| is_dwarf(&s.name)).for_each(|s| s.set_data(Vec::new()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!([".debug_line", ".rel.debug_info", ".rela.debug_str", ".debug_frame"].into_iter().all(is_dwarf));
        assert!(![".BTF", ".rel.BTF.ext", ".relxdp", ".debug", "xdp", ".rodata"].into_iter().any(is_dwarf));
    }
}
