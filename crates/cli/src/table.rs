//! Tables that read well in a terminal and render as Markdown where they are pasted.

/// Rows under a header, columns aligned; numbers are flush right.
pub fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = header.len();
    let cell = |row: &Vec<String>, c: usize| row.get(c).cloned().unwrap_or_default().replace('|', "\\|");
    let is_number = |c: usize| {
        c > 0 && rows.iter().all(|r| cell(r, c).is_empty() || cell(r, c).starts_with(|ch: char| ch.is_ascii_digit()))
    };
    let widths: Vec<usize> = (0..columns)
        .map(|c| {
            rows.iter().map(|r| cell(r, c).chars().count()).chain([header[c].chars().count(), 3]).max().unwrap_or(3)
        })
        .collect();
    let line = |cells: Vec<String>| {
        let padded = cells.into_iter().enumerate().map(|(c, text)| {
            let space = " ".repeat(widths[c].saturating_sub(text.chars().count()));
            if is_number(c) { format!("{space}{text}") } else { format!("{text}{space}") }
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = (0..columns).map(|c| {
        let dashes = "-".repeat(widths[c] - 1);
        if is_number(c) { format!("{dashes}:") } else { format!("{dashes}-") }
    });
    let mut out = line(header.iter().map(|h| h.to_string()).collect());
    out += &format!("| {} |\n", rule.collect::<Vec<_>>().join(" | "));
    for row in rows {
        out += &line((0..columns).map(|c| cell(row, c)).collect());
    }
    out
}

/// `120 -> 98 (-18.3%)`; one number when nothing changed, nothing when it is not known.
pub fn change(before: Option<u64>, after: Option<u64>) -> String {
    match (before, after) {
        (Some(a), Some(b)) if a == b => a.to_string(),
        (Some(a), Some(b)) if a == 0 => format!("{a} -> {b}"),
        (Some(a), Some(b)) => format!("{a} -> {b} ({:+.1}%)", (b as f64 - a as f64) / a as f64 * 100.0),
        (Some(a), None) => format!("{a} -> ?"),
        (None, Some(b)) => format!("? -> {b}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), change(Some(3), Some(2))], vec!["long name".into(), "7".into()]];
        assert_eq!(
            markdown(&["program", "slots"], &rows),
            "| program   |           slots |\n| --------- | --------------: |\n\
             | a         | 3 -> 2 (-33.3%) |\n| long name |               7 |\n"
        );
    }
}
