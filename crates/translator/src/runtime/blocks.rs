//! Copying, filling and comparing memory in the arena, as assembly: eight bytes at a time, where it pays four
//! times over.

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

/// The begin of each turn of a loop over `r3` bytes: numbers that the verifier knows nothing about, and the ways
/// out, when there was no end (`endless`) and when fewer than `bytes` are left (`next`).
fn turn(name: &str, endless: &str, next: &str, bytes: u32) -> Vec<String> {
    let mut lines = vec![format!("{}:", label(name))];
    lines.extend(["r1 = le64 r1", "r2 = le64 r2", "r3 = le64 r3"].map(String::from));
    lines.push(format!("may_goto {}", label(endless)));
    lines.push(go(&format!("if r3 < {bytes}"), next));
    lines
}

/// Copies `width` bytes `times` times at once while there are that many; `back` goes down from the end.
fn copying(name: &str, next: &str, width: u32, times: u32, back: bool) -> Vec<String> {
    let bytes = width * times;
    let mut lines = turn(name, "out", next, bytes);
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
    lines.push(go("if r3 < 8", "byte"));
    // What eight bytes at a time leave over is written by eight bytes that end where the area does. They
    // are read first, as what is copied may lie over them.
    lines.extend(["r6 = r1", "r6 += r3", "r6 += -8", "r7 = r2", "r7 += r3", "r7 += -8"].map(String::from));
    lines.extend(["r7 = addr_space_cast(r7, 0x0, 0x1)", "r7 = *(u64 *)(r7 + 0)"].map(String::from));
    lines.extend(copying("four", "one", 8, 4, false));
    lines.extend(copying("one", "tail", 8, 1, false));
    lines.push(format!("{}:", label("tail")));
    lines.push(go("if r3 == 0", "out"));
    lines.extend(["r6 = addr_space_cast(r6, 0x0, 0x1)", "*(u64 *)(r6 + 0) = r7"].map(String::from));
    lines.push(go("", "out"));
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

/// `memcmp(one, other, n)`: less than, equal to or greater than 0.
pub(super) fn compare() -> String {
    let step = |name: &str, next: &str, bytes: u32| {
        let mut lines = turn(name, "same", next, bytes);
        for (word, address) in [("r4", "r1"), ("r5", "r2")] {
            lines.push(format!("{word} = {address}"));
            lines.push(format!("{word} = addr_space_cast({word}, 0x0, 0x1)"));
            lines.push(format!("{word} = *(u{} *)({word} + 0)", 8 * bytes));
        }
        lines.push(go("if r4 != r5", "differ"));
        lines.extend([format!("r1 += {bytes}"), format!("r2 += {bytes}"), format!("r3 += -{bytes}"), go("", name)]);
        lines
    };
    let mut lines = Vec::new();
    lines.extend(step("eight", "four", 8));
    lines.extend(step("four", "byte", 4));
    lines.extend(step("byte", "same", 1));
    lines.push(format!("{}:", label("differ")));
    // The first byte in memory counts most.
    lines.extend(["r4 = be64 r4", "r5 = be64 r5", "r0 = 1"].map(String::from));
    lines.push(go("if r4 > r5", "out"));
    lines.push("r0 = -1".to_string());
    lines.push(go("", "out"));
    lines.push(format!("{}:", label("same")));
    lines.push("r0 = 0".to_string());
    lines.push(format!("{}:", label("out")));
    assembly(&lines, &["i64 %one", "i64 %other", "i64 %n"])
}

fn filling(name: &str, next: &str, width: u32, times: u32) -> Vec<String> {
    let bytes = width * times;
    let mut lines = turn(name, "out", next, bytes);
    lines.extend(["r5 = r1", "r5 = addr_space_cast(r5, 0x0, 0x1)"].map(String::from));
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
