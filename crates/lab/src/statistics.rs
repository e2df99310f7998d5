//! Robust statistics: what a few disturbed samples cannot move.

/// The middle one, or the mean of the two in the middle; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Half the distance between the quartiles.
pub fn half_quartile_range(values: &[f64]) -> f64 {
    (quantile(values, 0.75) - quantile(values, 0.25)) / 2.0
}

/// Mean of the middle half, for samples with outliers and coarse steps; there must be one.
pub fn middle_mean(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let middle = &sorted[quarter..sorted.len() - quarter];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// Arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Linear interpolation between the order statistics around `share` (0 to 1); 0 of nothing.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// The slope of y over x: median of the slopes of all pairs (Theil 1950, Sen 1968). 0 when no two
/// points have different x.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::new();
    for (i, (x1, y1)) in points.iter().enumerate() {
        slopes.extend(points[i + 1..].iter().filter(|(x2, _)| x2 != x1).map(|(x2, y2)| (y2 - y1) / (x2 - x1)));
    }
    median(&slopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_does_not_move_a_slope() {
        let mut points: Vec<(f64, f64)> = (0..9).map(|x| (x as f64, 3.0 * x as f64 + 1.0)).collect();
        points[4].1 = 1e6;
        assert!((slope(&points) - 3.0).abs() < 1e-9);
        assert_eq!(slope(&[(1.0, 2.0)]), 0.0);
    }

    #[test]
    fn middles() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(median(&[]), 0.0);
        assert_eq!(middle_mean(&[1.0, 2.0, 4.0, 1000.0]), 3.0);
        assert_eq!(half_quartile_range(&[1.0, 2.0, 3.0, 4.0, 5.0]), 1.0);
    }
}
