//! What a part shows, as a report.

use super::super::judge::short;
use super::{Part, Record, Variant};
use karakoram_lab::bootstrap::{Estimate, estimate};
use karakoram_lab::random::Random;
use karakoram_lab::ratio::ratio;
use karakoram_lab::report::{
    Axis, Block, Cell, Claim, Column, Figure, Plot, Report, Scale, Section, Series, Table, Verdict,
};
use karakoram_lab::statistics::{median, quantile};

/// The whole of it.
pub(super) fn report(title: &str, part: &Part, records: &[Record], seed: u64) -> Report {
    let weather = &part.weather;
    let summary = format!(
        "Two network namespaces, a cable between them, an end of the link in each. The near end loses {} of all frames that it sends, on purpose; the line has {} Mb/s, the path behind it is {} ms longer each way. Variants of a round follow one another in random order (seed {seed}), each in namespaces of its own. Retransmissions, time-outs and segments out of order are the kernel's own counters, of both hosts.",
        short(weather.loss.to_f64()),
        weather.line_mbps,
        weather.delay_ms
    );
    let section = match &part.congestion {
        Some(congestion) => transfers(part, congestion, records),
        None => requests(records),
    };
    Report::new(format!("{title}: {}", part.name)).summary(summary).section(section)
}

fn of(records: &[Record], variant: Variant) -> Vec<&Record> {
    let mut chosen: Vec<&Record> = records.iter().filter(|r| r.variant == variant).collect();
    chosen.sort_by_key(|r| r.round);
    chosen
}

fn goodputs(records: &[Record], variant: Variant) -> Vec<f64> {
    of(records, variant).iter().filter_map(|r| r.transfer).map(|t| t.goodput_mbps()).collect()
}

fn sum(records: &[&Record], what: impl Fn(&Record) -> u64) -> u64 {
    records.iter().map(|r| what(r)).sum()
}

fn cell(estimate: Estimate) -> Cell {
    Cell::Estimate { value: estimate.value, low: estimate.low, high: estimate.high }
}

/// The median over rounds.
fn middle(values: &[f64]) -> Estimate {
    let of_rounds = |rounds: &[usize]| median(&rounds.iter().map(|r| values[*r]).collect::<Vec<_>>());
    estimate(values.len(), &of_rounds, &mut Random::new(1))
}

/// Round by round.
fn relative(records: &[Record], variant: Variant, to: Variant) -> Estimate {
    let [this, that] = [variant, to].map(|v| goodputs(records, v));
    ratio(&[&this], &[&that], &mut Random::new(1))
}

fn transfers(part: &Part, congestion: &str, records: &[Record]) -> Section {
    let mut columns = vec![Column::text("link")];
    columns.push(Column::estimate("goodput", "Mb/s", 1));
    columns.push(Column::estimate("of loss-free", "%", 1));
    columns.push(Column::estimate("times unprotected", "", 2));
    columns.extend(["bytes", "identical", "frames lost", "given up"].map(Column::text));
    columns.extend(["TCP retransmissions", "time-outs", "out of order"].map(Column::text));
    columns.push(Column::number("CPU, near end", "ns/frame", 0));
    columns.push(Column::number("CPU, far end", "ns/frame", 0));
    let mut table = Table::new("transfers", columns)
        .caption("Medians over rounds with 95 % intervals; ratios round by round; counts are sums over all rounds.");
    for variant in Variant::ALL {
        table = table.row(transfer_row(records, variant));
    }
    let mut section = Section::new(format!("{congestion} over the link")).block(Block::Table(table));
    section.claims = claims(part, records);
    section.block(Block::Table(rounds(records)))
}

fn transfer_row(records: &[Record], variant: Variant) -> Vec<Cell> {
    let chosen = of(records, variant);
    let transfers: Vec<_> = chosen.iter().filter_map(|r| r.transfer).collect();
    let is_identical = transfers.iter().all(|t| t.is_identical);
    let count = |what: fn(&Record) -> u64| Cell::from(sum(&chosen, what).to_string());
    let cpu = |end: usize| {
        Cell::Number(median(&chosen.iter().map(|r| r.link.cpu_ns_per_frame[end] as f64).collect::<Vec<_>>()))
    };
    vec![
        variant.name().into(),
        cell(middle(&goodputs(records, variant))),
        cell(relative(records, variant, Variant::LossFree).map(|r| 100.0 * r)),
        cell(relative(records, variant, Variant::Unprotected)),
        transfers.iter().map(|t| t.bytes).sum::<u64>().to_string().into(),
        if is_identical { "yes" } else { "NO" }.into(),
        count(|r| r.link.lost),
        count(|r| r.link.given_up),
        count(|r| r.tcp.retransmitted),
        count(|r| r.tcp.timeouts),
        count(|r| r.tcp.out_of_order),
        cpu(0),
        cpu(1),
    ]
}

/// Every round, so that what the medians hide shows.
fn rounds(records: &[Record]) -> Table {
    let mut columns = vec![Column::text("round"), Column::text("link"), Column::number("goodput", "Mb/s", 1)];
    columns.extend(["frames", "lost", "recovered", "marked", "TCP retransmissions"].map(Column::text));
    let mut table = Table::new("rounds", columns).caption("In the order in which they were measured.");
    for record in records {
        let counts = [record.link.frames, record.link.lost, record.link.recovered, record.link.marked];
        let mut row = vec![(record.round + 1).to_string().into(), record.variant.name().into()];
        row.push(record.transfer.map(|t| t.goodput_mbps()).into());
        row.extend(counts.map(|n| Cell::from(n.to_string())));
        row.push(record.tcp.retransmitted.to_string().into());
        table = table.row(row);
    }
    table
}

/// What a protected link is for.
fn claims(part: &Part, records: &[Record]) -> Vec<Claim> {
    let claim = |text: &str, published: String, measured: String, is_so: bool, reason: &str| Claim {
        text: text.to_string(),
        source: "what an ordered link is to do".to_string(),
        published,
        measured,
        verdict: if is_so { Verdict::Holds } else { Verdict::DoesNotHold },
        reason: reason.to_string(),
    };
    let interval = |e: Estimate, unit: &str| format!("{} [{}, {}]{unit}", short(e.value), short(e.low), short(e.high));
    let ordered = of(records, Variant::Ordered);
    let is_identical = ordered.iter().filter_map(|r| r.transfer).all(|t| t.is_identical);
    let again = sum(&ordered, |r| r.tcp.retransmitted);
    let lost = sum(&ordered, |r| r.link.lost);
    let share = relative(records, Variant::Ordered, Variant::LossFree).map(|r| 100.0 * r);
    let times = relative(records, Variant::Ordered, Variant::Unprotected);
    let mut claims = vec![
        claim(
            "the bytes that were sent arrive",
            "identical".into(),
            if is_identical { "identical" } else { "different" }.into(),
            is_identical,
            "every byte was compared",
        ),
        claim(
            "TCP sees no loss",
            "0 retransmissions".into(),
            format!("{again} retransmissions"),
            again == 0,
            &format!("{lost} frames were lost on the line; counters of the kernel"),
        ),
        claim(
            "goodput of the loss-free link",
            format!("at least {} %", part.least_percent),
            interval(share, " %"),
            share.value >= part.least_percent,
            "the median of the rounds' ratios",
        ),
    ];
    if part.least_times > 0.0 {
        let text = "goodput of the unprotected link";
        let published = format!("at least {} times", part.least_times);
        let is_so = times.value >= part.least_times;
        claims.push(claim(text, published, interval(times, " times"), is_so, "the median of the rounds' ratios"));
    }
    claims
}

fn requests(records: &[Record]) -> Section {
    const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("most", 1.0)];
    let mut columns = vec![Column::text("link"), Column::text("requests")];
    columns.extend(SHARES.map(|(name, _)| Column::estimate(name, "ms", 2)));
    columns.extend(["frames lost", "TCP retransmissions", "time-outs"].map(Column::text));
    let mut table = Table::new("requests", columns)
        .caption("Quantiles of each round; their median over rounds with its 95 % interval.");
    let mut series = Vec::new();
    for variant in Variant::ALL {
        let chosen = of(records, variant);
        let mut all: Vec<f64> = chosen.iter().flat_map(|r| r.times_ms.iter().copied()).collect();
        all.sort_by(f64::total_cmp);
        let mut row: Vec<Cell> = vec![variant.name().into(), all.len().to_string().into()];
        for (_, share) in SHARES {
            row.push(cell(middle(&chosen.iter().map(|r| quantile(&r.times_ms, share)).collect::<Vec<_>>())));
        }
        let counts =
            [sum(&chosen, |r| r.link.lost), sum(&chosen, |r| r.tcp.retransmitted), sum(&chosen, |r| r.tcp.timeouts)];
        row.extend(counts.map(|n| Cell::from(n.to_string())));
        table = table.row(row);
        series.push(Series::new(variant.name(), &tail(&all)));
    }
    let figure = Figure {
        name: "requests".to_string(),
        title: "Share of requests that take longer".to_string(),
        caption: "All rounds together.".to_string(),
        plot: Plot::Lines { x: Axis::new("time", "ms", Scale::Log), y: Axis::new("share", "", Scale::Log), series },
    };
    Section::new("memcached, one request after the other")
        .text("Without protection a lost frame costs a time-out of at least 200 ms; with it, the time the link needs to send it again.")
        .block(Block::Table(table))
        .block(Block::Figure(figure))
}

/// How large a share takes longer, at places that are even by logarithm.
fn tail(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let ranks = (0..=100).map(|step| ((1.0 - 10f64.powf(-f64::from(step) / 20.0)) * count as f64) as usize);
    let mut points: Vec<(f64, f64)> =
        ranks.filter(|r| *r < count).map(|r| (sorted[r], (count - r) as f64 / count as f64)).collect();
    points.dedup_by(|a, b| a.0 == b.0);
    points
}
