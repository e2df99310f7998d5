//! Robust statistics: what a few disturbed samples cannot move.

/// The middle one, or the mean of the two in the middle; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The pseudo-median of values, or of some drawn from them: the median of the means of all pairs, each value with itself
/// too (Hodges and Lehmann 1963). It takes three outliers in ten, and says nearly as much as the mean does of values
/// without any; the median needs half as many values more for that.
pub struct PseudoMedian {
    /// Mean of each pair of values, in order, with the places of both.
    means: Vec<(f64, usize, usize)>,
    values: usize,
}

impl PseudoMedian {
    /// Of these values.
    pub fn new(values: &[f64]) -> PseudoMedian {
        let pairs = values
            .iter()
            .enumerate()
            .flat_map(|(i, a)| values[i..].iter().enumerate().map(move |(further, b)| ((a + b) / 2.0, i, i + further)));
        let mut means: Vec<_> = pairs.collect();
        means.sort_by(|a, b| a.0.total_cmp(&b.0));
        PseudoMedian { means, values: values.len() }
    }

    /// Of the values at those places, which may come again; 0 of nothing.
    pub fn of(&self, drawn: &[usize]) -> f64 {
        let mut times = vec![0; self.values];
        drawn.iter().for_each(|place| times[*place] += 1);
        let pairs = drawn.len() * (drawn.len() + 1) / 2;
        let weighted = self.means.iter().map(|(mean, i, j)| match i == j {
            true => (mean, times[*i] * (times[*i] + 1) / 2),
            false => (mean, times[*i] * times[*j]),
        });
        let (mut passed, mut lower) = (0, None);
        for (mean, weight) in weighted {
            passed += weight;
            if lower.is_none() && 2 * passed >= pairs {
                lower = Some(*mean);
            }
            if 2 * passed > pairs {
                return lower.map_or(*mean, |lower| (lower + mean) / 2.0);
            }
        }
        0.0
    }
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
    fn pairs_say_what_the_middle_is() {
        let of = |values: &[f64]| PseudoMedian::new(values).of(&(0..values.len()).collect::<Vec<_>>());
        assert_eq!(of(&[]), 0.0);
        assert_eq!(of(&[3.0]), 3.0);
        // 1, 1.5, 2, 2, 2.5, 3
        assert_eq!(of(&[3.0, 1.0, 2.0]), 2.0);
        // 0, 0.5, 1, 3, 3.5, 6
        assert_eq!(of(&[0.0, 1.0, 6.0]), 2.0);
        assert!(of(&[1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1e9]) < 1.1);
        let values = [5.0, 1.0, 2.0, 8.0];
        for drawn in [[0, 0, 3, 1], [2, 2, 2, 2], [1, 0, 1, 0]] {
            let drawn_values: Vec<f64> = drawn.iter().map(|d| values[*d]).collect();
            assert_eq!(PseudoMedian::new(&values).of(&drawn), of(&drawn_values), "{drawn:?}");
        }
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
