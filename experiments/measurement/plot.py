"""Figures as SVG."""
import math
import sys


def pyplot():
    """matplotlib, or None with a word about it."""
    try:
        import matplotlib
    except ImportError:
        print("no figures: matplotlib is missing (apt-get install python3-matplotlib)", file=sys.stderr)
        return None
    matplotlib.use("svg")
    # The same figure has the same bytes.
    matplotlib.rcParams.update({"svg.hashsalt": "karakoram", "font.size": 9, "axes.spines.top": False,
                                "axes.spines.right": False, "figure.figsize": (7, 4.2)})
    import matplotlib.pyplot
    return matplotlib.pyplot


def save(plt, path):
    plt.tight_layout()
    plt.savefig(path, metadata={"Date": None})
    plt.close()


def time_against_size(path, series, reference):
    """Seconds over slots, both logarithmic. `series` maps a label to (slots, seconds) pairs; the line is
    a multiple of n log n through the median of the pairs of series `reference`."""
    plt = pyplot()
    if plt is None:
        return
    for (label, pairs), marker in zip(series.items(), "osx^d"):
        plt.loglog([n for n, _ in pairs], [t for _, t in pairs], marker, label=label, alpha=0.75, markersize=5)
    pairs = series[reference]
    factors = sorted(t / (n * math.log2(n)) for n, t in pairs if n > 1)
    factor = factors[len(factors) // 2]
    lowest, highest = (f(n for pairs in series.values() for n, _ in pairs) for f in (min, max))
    sizes = [lowest * (highest / lowest) ** (i / 50) for i in range(51)]
    plt.loglog(sizes, [factor * n * math.log2(n) for n in sizes], "-", color="gray", label=f"{factor * 1e6:.1f} µs · n log₂ n")
    plt.xlabel("size of the program (slots)")
    plt.ylabel("time (s)")
    plt.grid(True, which="major", alpha=0.3)
    plt.legend(frameon=False)
    save(plt, path)


def bars(path, labels, series, ylabel, is_logarithmic=False):
    """Groups of bars, one for each label; `series` maps a name to one value for each label."""
    plt = pyplot()
    if plt is None:
        return
    width = 0.8 / len(series)
    for i, (name, values) in enumerate(series.items()):
        places = [x + (i - (len(series) - 1) / 2) * width for x in range(len(labels))]
        plt.bar(places, [v or 0 for v in values], width, label=name)
    plt.xticks(range(len(labels)), labels, rotation=45, ha="right")
    plt.ylabel(ylabel)
    if is_logarithmic:
        plt.yscale("log")
    plt.legend(frameon=False, ncols=len(series), loc="lower center", bbox_to_anchor=(0.5, 1))
    save(plt, path)


def intervals(path, labels, ratios, controls, xlabel):
    """Ratios with their intervals, one below the other, beside those of a control."""
    plt = pyplot()
    if plt is None:
        return
    plt.figure(figsize=(7, 0.32 * len(labels) + 1.2))
    for offset, values, colour, name in ((0.12, controls, "lightgray", "A against itself"), (-0.12, ratios, "tab:blue", "optimized")):
        places = [len(labels) - 1 - i + offset for i in range(len(labels))]
        middles = [v["ratio"] for v in values]
        spans = [[v["ratio"] - v["low"] for v in values], [v["high"] - v["ratio"] for v in values]]
        plt.errorbar(middles, places, xerr=spans, fmt="o", color=colour, label=name, markersize=4, capsize=2)
    plt.axvline(1, color="gray", linewidth=0.8)
    plt.yticks(range(len(labels)), reversed(labels))
    plt.xlabel(xlabel)
    plt.legend(frameon=False)
    save(plt, path)
