"""Tables as Markdown, CSV and JSON."""
import csv
import json
import pathlib
import statistics
import subprocess
import sys

from measurement import environment
from measurement.kara import KARA


def markdown(header, rows):
    """A table; numbers are flush right, None is an empty cell."""
    text = [["" if cell is None else str(cell) for cell in row] for row in rows]
    numbers = [all(row[i][:1].isdigit() or row[i][:1] in ("", "-", "<", ">") for row in text) for i in range(len(header))]
    widths = [max(3, *(len(row[i]) for row in [list(header), *text])) for i in range(len(header))]
    def line(cells):
        padded = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(cells, widths, numbers))
        return "| " + " | ".join(padded) + " |"
    rule = "| " + " | ".join("-" * (w - 1) + (":" if n else "-") for w, n in zip(widths, numbers)) + " |"
    return "\n".join([line(header), rule, *(line(row) for row in text)]) + "\n"


def percent(before, after):
    """How much less, as text."""
    return None if not before or after is None else f"{100 * (1 - after / before):.2f}"


def mean_percent(pairs):
    """Mean of the reductions in percent."""
    values = [100 * (1 - after / before) for before, after in pairs if before]
    return statistics.mean(values) if values else 0.0


def as_table(name, records):
    """Records as a table of a report."""
    def column(key):
        values = [r[key] for r in records if r[key] is not None]
        is_number = bool(values) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
        form = {"number": 0 if all(isinstance(v, int) for v in values) else 3} if is_number else "text"
        return {"name": key.replace("_", " "), "unit": "", "form": form}
    columns = [column(key) for key in records[0]]
    def cell(value, form):
        return value if value is None or form != "text" else str(value)
    rows = [[cell(value, c["form"]) for value, c in zip(r.values(), columns)] for r in records]
    return {"name": name, "caption": "", "columns": columns, "rows": rows}


class Output:
    """The folder of an experiment's results."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environment = environment.record()
        self.texts = []
        self.blocks = []

    def say(self, text):
        """A paragraph or table of the report, also to stdout."""
        self.texts.append(text.rstrip("\n") + "\n")
        print(self.texts[-1], flush=True)
        if not text.startswith("|"):
            self.blocks.append({"text": text.strip()})

    def table(self, name, records):
        """Records, which are dictionaries with the same keys, as NAME.csv."""
        if not records:
            return
        with open(self.folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(records)
        self.blocks.append({"table": as_table(name, records)})

    def page(self, name):
        """report.html: the form of all experiments."""
        record = [[key, str(value)] for key, value in self.environment.items() if value is not None]
        section = {"title": name, "claims": [], "blocks": self.blocks}
        report = {"schema": "kara/report/1", "title": name, "summary": [], "warnings": [], "sections": [section],
                  "environment": record}
        (self.folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        subprocess.run([KARA, "lab", "report", self.folder], check=True, stdout=subprocess.DEVNULL)

    def finish(self, name, **results):
        """NAME.md and NAME.json with everything, and the page."""
        self.page(name)
        self.say(environment.sentence(self.environment))
        (self.folder / f"{name}.md").write_text("\n".join(self.texts))
        content = {"environment": self.environment, **results}
        (self.folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
        print(f"written to {self.folder}", file=sys.stderr)


def progress(done, total, what):
    """Where we are, to stderr when somebody is watching."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total} {what:60.60}", end="" if done < total else "\n", file=sys.stderr, flush=True)
