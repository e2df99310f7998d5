//! One report with everything that a report can have, as the files it becomes. `BLESS=1` rewrites
//! what is expected.

use karakoram_lab::report::*;
use karakoram_lab::trial::histogram;
use std::fs;
use std::path::{Path, PathBuf};

fn estimate(value: f64, low: f64, high: f64) -> Cell {
    Cell::Estimate { value, low, high }
}

fn claims() -> Section {
    let claim = |text: &str, published: &str, measured: &str, verdict, reason: &str| Claim {
        text: text.into(),
        source: "Table 1, Someone et al. 2025".into(),
        published: published.into(),
        measured: measured.into(),
        verdict,
        reason: reason.into(),
    };
    Section::new("Time to reach a hook")
        .claim(claim(
            "Hooks nearer to the driver are reached sooner",
            "0 < 273 < 1072 < 5738 ns",
            "0 < 412 < 2210 < 9100 ns",
            Verdict::Holds,
            "",
        ))
        .claim(claim(
            "Preparing sk_skb takes 35 times as long",
            "1350 / 38 ns",
            "3.1 [2.9, 3.3]",
            Verdict::DoesNotHold,
            "the published figure holds the wake-up of the application",
        ))
        .claim(claim(
            "A minimal program costs 1 % of bandwidth",
            "−1.4 %",
            "0.99 [0.95, 1.03]",
            Verdict::Inconclusive,
            "the interval is wider than the effect",
        ))
        .claim(claim("AF_XDP is best", "13.4 Mpps", "", Verdict::NotTestable, "veth has no zero copy"))
        .text("Times from the entry of the XDP program, with <angle brackets> & an ampersand.")
        .block(Block::Table(
            Table::new(
                "reach",
                vec![
                    Column::text("hook"),
                    Column::estimate("median", "ns", 0),
                    Column::number("published", "ns", 0),
                    Column::number("trials", "", 0),
                ],
            )
            .caption("Medians over trials with 95 % intervals.")
            .row(vec!["tc".into(), estimate(412.0, 405.5, 420.25), 273.0.into(), 15.0.into()])
            .row(vec!["sk_skb".into(), estimate(2210.0, 2150.0, 2300.0), 1072.0.into(), 15.0.into()])
            .row(vec!["socket".into(), estimate(9100.0, 8800.0, 12_345.0), 5738.0.into(), Cell::Empty]),
        ))
}

fn figures() -> Section {
    let figure = |name: &str, title: &str, plot| {
        Block::Figure(Figure { name: name.into(), title: title.into(), caption: "How to read it.".into(), plot })
    };
    let boxed = |label: &str, by: f64| BoxRow {
        label: label.into(),
        low: 0.8 * by,
        q1: 0.95 * by,
        median: by,
        q3: 1.1 * by,
        high: 1.4 * by,
    };
    let ratio = |label: &str, value: f64, width: f64, published| IntervalRow {
        label: label.into(),
        value,
        low: value - width,
        high: value + width,
        published,
    };
    let spread = |label: &str, by: u64| {
        let mut counts = histogram();
        (0..24u64).for_each(|n| counts.record(by + by * n * n / 600).unwrap());
        cdf(label, &counts, 0.001)
    };
    let line = |label: &str, top: f64, is_published: bool| {
        let points = (1..=12).map(|n| {
            let x = f64::from(n) * 1e5;
            let y = x.min(top);
            Point { x, y, interval: (!is_published).then_some((y * 0.96, y * 1.02)) }
        });
        Series { label: label.into(), points: points.collect(), is_step: false, is_published }
    };
    let part = |label: &str, value: f64| Part { label: label.into(), value, interval: None };
    let bar = |label: &str, value: f64| Part { label: label.into(), value, interval: Some((value * 0.9, value * 1.1)) };
    Section::new("Figures")
        .block(figure(
            "boxes",
            "Echo",
            Plot::Boxes {
                axis: Axis::new("round trip", "µs", Scale::Linear),
                rows: vec![
                    boxed("XDP", 5.4),
                    boxed("tc", 5.6),
                    boxed("sk_skb", 22.0),
                    boxed("socket, a name that is rather long and a bit longer still", 47.0),
                ],
            },
        ))
        .block(figure(
            "ratios",
            "Speed-up",
            Plot::Intervals {
                axis: Axis::new("original over optimized", "", Scale::Linear),
                reference: Some(1.0),
                band: Some((0.99, 1.01)),
                rows: vec![
                    ratio("xdp_fwd", 1.07, 0.02, Some(1.04)),
                    ratio("xdp_fw", 1.003, 0.004, None),
                    ratio("A against itself", 1.0, 0.008, None),
                ],
            },
        ))
        .block(figure(
            "cdf",
            "Echo, distribution",
            Plot::Lines {
                x: Axis::new("round trip", "µs", Scale::Log),
                y: Axis::new("share of requests", "", Scale::Zero),
                series: vec![
                    spread("XDP", 5400),
                    spread("tc", 5600),
                    spread("sk_skb", 22_000),
                    spread("socket", 47_000),
                ],
            },
        ))
        .block(figure(
            "rates",
            "Received over offered",
            Plot::Lines {
                x: Axis::new("offered", "packets/s", Scale::Zero),
                y: Axis::new("received", "packets/s", Scale::Zero),
                series: vec![
                    line("original", 7.6e5, false),
                    line("optimized", 8.1e5, false),
                    line("published", 1e6, true),
                ],
            },
        ))
        .block(figure(
            "segments",
            "Where the time goes",
            Plot::Bars {
                axis: Axis::new("time", "ns", Scale::Zero),
                is_stacked: true,
                rows: vec![
                    BarRow {
                        label: "native".into(),
                        parts: vec![part("to tc", 412.0), part("to socket", 1800.0), part("wake-up", 6900.0)],
                    },
                    BarRow {
                        label: "generic".into(),
                        parts: vec![part("to tc", 300.0), part("to socket", 1900.0), part("wake-up", 7000.0)],
                    },
                ],
            },
        ))
        .block(figure(
            "bars",
            "Packets per second",
            Plot::Bars {
                axis: Axis::new("rate", "packets/s", Scale::Zero),
                is_stacked: false,
                rows: vec![
                    BarRow { label: "XDP".into(), parts: vec![bar("64 bytes", 1.2e6), bar("1500 bytes", 8e5)] },
                    BarRow { label: "tc".into(), parts: vec![bar("64 bytes", 6e5), bar("1500 bytes", 5e5)] },
                ],
            },
        ))
}

fn sample() -> Report {
    Report::new("An example of everything")
        .summary("Invented numbers, to see what a report looks like.")
        .warning("The machine was busy (load 3.2): differences may be those of others.")
        .section(claims())
        .section(figures())
        .environment(vec![
            ("kernel".into(), "Linux 6.18".into()),
            ("processor".into(), "AMD EPYC, 2 processors".into()),
        ])
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    write(&sample(), &folder).unwrap();
    folder
}

#[test]
fn tables_and_text_are_as_expected() {
    let (made, expected) = (folder(), Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report"));
    for name in ["report.json", "reach.csv", "README.md", "ratios.svg"] {
        let got = fs::read_to_string(made.join(name)).unwrap();
        if std::env::var_os("BLESS").is_some() {
            fs::write(expected.join(name), &got).unwrap();
        }
        let wanted = fs::read_to_string(expected.join(name)).unwrap_or_default();
        assert_eq!(got, wanted, "{name} differs; BLESS=1 takes it over");
    }
}

#[test]
fn json_is_the_whole_report() {
    let report = read(&folder().join("report.json")).unwrap();
    assert!(report == sample(), "something is lost on the way through JSON");
    assert!(html(&report).unwrap() == html(&sample()).unwrap());
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let text = html(&sample()).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let page = roxmltree::Document::parse_with_options(&text, options).unwrap();
    let all =
        |tag: &'static str| page.descendants().filter(move |n| n.has_tag_name(("http://www.w3.org/1999/xhtml", tag)));
    assert_eq!((all("section").count(), all("figure").count()), (3, 6));
    assert_eq!(page.descendants().filter(|n| n.tag_name().name() == "svg").count(), 6);
    let needs =
        |n: &roxmltree::Node| ["src", "href"].iter().any(|a| n.attribute(*a).is_some_and(|v| !v.starts_with('#')));
    assert!(!page.descendants().any(|n| needs(&n)));
    assert!(text.contains("with &lt;angle brackets&gt; &amp; an ampersand"));
    for words in ["holds here", "does not hold here", "inconclusive", "not testable here"] {
        assert!(text.contains(words));
    }
}
