//! Numbers as people read them.

/// A number with so many decimals, thousands apart by thin spaces.
pub fn plain(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    for (place, digit) in whole.chars().enumerate() {
        // Four digits read well without.
        if place > 0 && (whole.len() - place).is_multiple_of(3) && whole.len() > 4 {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    let is_zero = text.chars().all(|c| c == '0' || c == '.');
    let sign = if value < 0.0 && !is_zero { "−" } else { "" };
    format!("{sign}{out}{}", rest.map_or(String::new(), |r| format!(".{r}")))
}

/// A number with about three digits, and k, M or G where it is large: for axes.
pub fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        a if a >= 1e9 => (value / 1e9, "G"),
        a if a >= 1e6 => (value / 1e6, "M"),
        a if a >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match scaled.abs() {
        0.0 => 0,
        a => (2 - a.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{scaled:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{}{suffix}", text.replace('-', "−"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(plain(1234567.891, 1), "1\u{2009}234\u{2009}567.9");
        assert_eq!(plain(-1234.0, 0), "−1234");
        assert_eq!(plain(-0.001, 2), "0.00");
        assert_eq!(plain(f64::NAN, 2), "–");
        for (value, text) in
            [(0.0, "0"), (1200.0, "1200"), (25_000.0, "25k"), (1.5e6, "1.5M"), (0.25, "0.25"), (-3.0, "−3")]
        {
            assert_eq!(short(value), text);
        }
    }
}
