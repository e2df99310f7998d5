//! Arithmetic that stops at the largest or smallest number, as comparisons and choices. The code generator
//! would make a bit of whether it went over, and test that: the verifier then knows how the test ends.

/// The lines of a function without such arithmetic.
pub(super) fn expand(lines: Vec<String>) -> Vec<String> {
    let mut out = Vec::with_capacity(lines.len());
    for line in lines {
        match expanded(&line) {
            Some(instead) => out.extend(instead),
            None => out.push(line),
        }
    }
    out
}

/// `%r = tail call i32 @llvm.usub.sat.i32(i32 %a, i32 %b)`: `a > b ? a - b : 0`. A sum is over when it is less
/// than what was added to.
fn expanded(line: &str) -> Option<[String; 3]> {
    let (name, rest) = line.trim_start().split_once(" = ")?;
    let (kind, rest) = rest.split_once("@llvm.u")?.1.split_once(".sat.")?;
    let (ty, arguments) = rest.split_once('(')?;
    let (arguments, _) = arguments.split_once(')')?;
    let (a, b) = arguments.split_once(", ")?;
    let (a, b) = (a.rsplit(' ').next()?, b.rsplit(' ').next()?);
    // A number cannot begin a name with letters.
    let bare = name.strip_prefix('%')?;
    let (difference, over) = (format!("%wraps.{bare}"), format!("%over.{bare}"));
    Some(match kind {
        "sub" => [
            format!("  {difference} = sub {ty} {a}, {b}"),
            format!("  {over} = icmp ult {ty} {a}, {b}"),
            format!("  {name} = select i1 {over}, {ty} 0, {ty} {difference}"),
        ],
        "add" => [
            format!("  {difference} = add {ty} {a}, {b}"),
            format!("  {over} = icmp ult {ty} {difference}, {a}"),
            format!("  {name} = select i1 {over}, {ty} -1, {ty} {difference}"),
        ],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_end_at_zero_and_sums_at_the_largest_number() {
        let lines = expand(vec!["  %r = tail call i32 @llvm.usub.sat.i32(i32 %a, i32 7)".to_string()]);
        let wanted = [
            "  %wraps.r = sub i32 %a, 7",
            "  %over.r = icmp ult i32 %a, 7",
            "  %r = select i1 %over.r, i32 0, i32 %wraps.r",
        ];
        assert_eq!(lines, wanted);
        let lines = expand(vec!["  %r = tail call i64 @llvm.uadd.sat.i64(i64 %a, i64 %b), !dbg !7".to_string()]);
        let wanted = [
            "  %wraps.r = add i64 %a, %b",
            "  %over.r = icmp ult i64 %wraps.r, %a",
            "  %r = select i1 %over.r, i64 -1, i64 %wraps.r",
        ];
        assert_eq!(lines, wanted);
        let lines = expand(vec!["  %1 = tail call i64 @llvm.usub.sat.i64(i64 %a, i64 9)".to_string()]);
        assert_eq!(lines[0], "  %wraps.1 = sub i64 %a, 9");
        let other = vec!["  %r = tail call i32 @llvm.umin.i32(i32 %a, i32 7)".to_string()];
        assert_eq!(expand(other.clone()), other);
    }
}
