//! Copying and filling memory in the arena, as assembly: eight bytes at a time, four times over.

/// The text of an assembly block with what goes in and is changed, and its result in r0.
pub(super) fn assembly(lines: &[String], inputs: &[&str]) -> String {
    let constraints: Vec<String> = (1..=inputs.len()).map(|n| format!("{{r{n}}}")).collect();
    let values: Vec<String> = inputs.iter().map(|i| i.to_string()).collect();
    let clobbers: String = (1..=9).map(|n| format!(",~{{r{n}}}")).collect();
    format!(
        "entry:\n  %result = call i64 asm sideeffect \"{}\", \"={{r0}},{}{clobbers},~{{memory}}\"({})\n  ret i64 %result\n",
        lines.join("\\0A"),
        constraints.join(","),
        values.join(", ")
    )
}

fn label(name: &str) -> String {
    format!(".L{name}_${{:uid}}")
}

fn go(condition: &str, to: &str) -> String {
    match condition.is_empty() {
        true => format!("goto {}", label(to)),
        false => format!("{condition} goto {}", label(to)),
    }
}

/// Copies `width` bytes `times` times at once while there are that many; `back` goes down from the end.
fn copying(name: &str, next: &str, width: u32, times: u32, back: bool) -> Vec<String> {
    let bytes = width * times;
    let mut lines = vec![
        format!("{}:", label(name)),
        "r1 = le64 r1".to_string(),
        "r2 = le64 r2".to_string(),
        "r3 = le64 r3".to_string(),
        format!("may_goto {}", label("out")),
        go(&format!("if r3 < {bytes}"), next),
    ];
    if back {
        lines.extend([format!("r1 += -{bytes}"), format!("r2 += -{bytes}")]);
    }
    lines.extend(["r4 = r2", "r4 = addr_space_cast(r4, 0x0, 0x1)", "r5 = r1"].map(String::from));
    lines.push("r5 = addr_space_cast(r5, 0x0, 0x1)".to_string());
    // All is read before it is written only within one step; overlapping areas are at least that apart
    // in the direction of copying, or the steps are of one access.
    for n in 0..times {
        lines.push(format!("r0 = *(u{} *)(r4 + {})", 8 * width, n * width));
        lines.push(format!("*(u{} *)(r5 + {}) = r0", 8 * width, n * width));
    }
    if !back {
        lines.extend([format!("r1 += {bytes}"), format!("r2 += {bytes}")]);
    }
    lines.push(format!("r3 += -{bytes}"));
    lines.push(go("", name));
    lines
}

/// `memmove(to, from, n)`.
pub(super) fn copy() -> String {
    let mut lines = vec!["r0 = r1".to_string(), "r0 -= r2".to_string(), "w0 = w0".to_string()];
    lines.push(go("if r0 < r3", "back"));
    lines.extend(copying("four", "one", 8, 4, false));
    lines.extend(copying("one", "byte", 8, 1, false));
    lines.extend(copying("byte", "out", 1, 1, false));
    lines.push(format!("{}:", label("back")));
    // The areas overlap, so no step may read what it has written: one access at a time.
    lines.extend(["r1 += r3", "r2 += r3"].map(String::from));
    lines.extend(copying("backone", "backbyte", 8, 1, true));
    lines.extend(copying("backbyte", "out", 1, 1, true));
    lines.push(format!("{}:", label("out")));
    lines.push("r0 = 0".to_string());
    assembly(&lines, &["i64 %to", "i64 %from", "i64 %n"])
}

fn filling(name: &str, next: &str, width: u32, times: u32) -> Vec<String> {
    let bytes = width * times;
    let mut lines = vec![
        format!("{}:", label(name)),
        "r1 = le64 r1".to_string(),
        "r2 = le64 r2".to_string(),
        "r3 = le64 r3".to_string(),
        format!("may_goto {}", label("out")),
        go(&format!("if r3 < {bytes}"), next),
        "r5 = r1".to_string(),
        "r5 = addr_space_cast(r5, 0x0, 0x1)".to_string(),
    ];
    lines.extend((0..times).map(|n| format!("*(u{} *)(r5 + {}) = r2", 8 * width, n * width)));
    lines.extend([format!("r1 += {bytes}"), format!("r3 += -{bytes}"), go("", name)]);
    lines
}

/// `memset(to, byte, n)`.
pub(super) fn fill() -> String {
    let mut lines: Vec<String> = ["r2 &= 255", "r4 = 72340172838076673 ll", "r2 *= r4"].map(String::from).to_vec();
    lines.extend(filling("four", "one", 8, 4));
    lines.extend(filling("one", "byte", 8, 1));
    lines.extend(filling("byte", "out", 1, 1));
    lines.push(format!("{}:", label("out")));
    lines.push("r0 = 0".to_string());
    assembly(&lines, &["i64 %to", "i64 %byte", "i64 %n"])
}
