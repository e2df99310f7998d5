"""The programs of experiments/corpus/set.csv, and the figures published about them."""
import csv
import dataclasses
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "corpus"
SET = ROOT / "experiments" / "corpus" / "set.csv"
INPUTS = ROOT / "experiments" / "corpus" / "inputs"
PUBLISHED = ROOT / "experiments" / "published"
# Of these the builds are Debian's own.
PREBUILT = {"libxdp1", "libbpf-tools"}


@dataclasses.dataclass(frozen=True)
class Program:
    tier: str
    group: str
    object: str
    section: str
    name: str
    type: str

    @property
    def title(self):
        """A name that no other program of the set has."""
        stem = self.object.removesuffix(".o")
        return self.name if stem == self.name else f"{stem}:{self.name}"

    def path(self, build):
        """Its object in a build such as clang-19-v3."""
        return CORPUS / ("prebuilt" if self.group in PREBUILT else build) / self.group / self.object

    @property
    def inputs(self):
        """What it is run on, if somebody wrote that down."""
        path = INPUTS / (self.object.removesuffix(".o") + ".toml")
        return path if path.exists() else None


def programs(*tiers):
    """The programs of those tiers, smallest first."""
    with open(SET, newline="") as file:
        rows = list(csv.DictReader(file))
    found = [Program(r["tier"], r["group"], r["object"], r["section"], r["program"], r["type"]) for r in rows]
    return [p for p in found if p.tier in tiers]


def published(table):
    """Rows of a published table by (object, program)."""
    with open(PUBLISHED / f"{table}.csv", newline="") as file:
        return {(row["object"], row["program"]): row for row in csv.DictReader(file)}


def check_built(build, chosen):
    """Ends with advice when objects of a build are missing."""
    missing = [p.object for p in chosen if not p.path(build).exists()]
    if missing:
        compiler, level = build.rsplit("-", 1)
        clang = compiler.removeprefix("clang-")
        raise SystemExit(f"{len(missing)} objects of {build} are missing, the first is {missing[0]}; "
                         f"make them with: scripts/corpus --clang {clang} --cpu {level}")
