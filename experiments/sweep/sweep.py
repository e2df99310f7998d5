#!/usr/bin/env python3
"""Runs `kara opt` over a corpus and writes what it did to each program as CSV.

    scripts/corpus --all --cpu v3
    experiments/sweep/sweep.py corpus/clang-19-v3 --out build/sweep --runs 10000

For each object: -O0 must give the same bytes; the default level must end with status 0 (or 2 for an
object it refuses, with the reason); wall time, processor time and peak memory are those of the whole
process. Exits with 1 when anything crashed, grew, differed in a test run, was rejected though its input
is accepted, or (with --twice) gave other bytes another time.
"""
import argparse, csv, json, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from measurement.kara import run


def objects_of_tiers(tiers):
    """Group and file name of the objects that hold programs of those tiers."""
    with open(pathlib.Path(__file__).parents[1] / "corpus" / "set.csv", newline="") as file:
        return {(row["group"], row["object"]) for row in csv.DictReader(file) if row["tier"] in tiers}


def varying(arguments, path, result):
    """Which runs of `kara opt` give other bytes than `result`."""
    first, different = result.read_bytes(), []
    again = arguments.out / "again.o"
    for jobs in ([], ["-j", "1"], ["-j", "2"]):
        again.unlink(missing_ok=True)
        command = [arguments.kara, "opt", str(path), "-o", str(again), "-q", "--proof", "none",
                   "--runs", str(arguments.runs), *arguments.option, *jobs]
        if run(command, arguments.limit).status != 0 or again.read_bytes() != first:
            different.append(" ".join(jobs) or "a second time")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=pathlib.Path)
    parser.add_argument("--kara", default="target/release/kara")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/sweep"))
    parser.add_argument("--runs", type=int, default=300, help="test runs of both versions of a program")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one object")
    parser.add_argument("--tier", action="append", default=[], help="only objects with programs of that tier of "
                        "experiments/corpus/set.csv; may be repeated")
    parser.add_argument("--twice", action="store_true", help="also check that a second run, and runs with -j 1 and -j 2, "
                        "give the same bytes")
    parser.add_argument("--option", action="append", default=[], help="another option for kara opt")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    objects = sorted(f for folder in arguments.folder for f in ([folder] if folder.is_file() else folder.rglob("*.o")))
    if arguments.tier:
        wanted = objects_of_tiers(arguments.tier)
        objects = [f for f in objects if (f.parent.name, f.name) in wanted]
    bad, programs, slowest, largest = [], [], (0, ""), (0, "")
    with open(arguments.out / "programs.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow("object program type slots_before slots_after rewrites kernel verified_before verified_after "
                       "seconds peak_bytes notes".split())
        for number, path in enumerate(objects):
            print(f"\r{number + 1}/{len(objects)} {path.name:60.60}", end="", file=sys.stderr, flush=True)
            same = arguments.out / "same.o"
            level_0 = run([arguments.kara, "opt", "-O0", "--kernel", "none", "--proof", "none", "-q",
                           str(path), "-o", str(same)], arguments.limit)
            if level_0.status == 0 and same.read_bytes() != path.read_bytes():
                bad.append(f"{path}: -O0 changes the object")
            result = arguments.out / "result.o"
            done = run(
                [arguments.kara, "opt", str(path), "-o", str(result), "--json", "--runs", str(arguments.runs),
                 *arguments.option], arguments.limit)
            status, wall, peak = done.status, done.wall_seconds, done.peak_bytes
            slowest, largest = max(slowest, (wall, path.name)), max(largest, (peak, path.name))
            if status not in (0, 2):
                bad.append(f"{path}: exit status {status}: {done.err.strip()[-300:]}")
                continue
            report = json.loads(done.out)
            if status == 0 and arguments.twice:
                bad += [f"{path}: other bytes with {how}" for how in varying(arguments, path, result)]
            if status == 2:
                table.writerow([path, "", "", "", "", "", "refused", "", "", f"{wall:.3f}", peak,
                                report.get("error", {}).get("message", "")])
                continue
            for p in report["programs"]:
                before, after, notes = p["before"], p["after"], "; ".join(p["notes"])
                programs.append((before["slots"], after["slots"]))
                table.writerow([path, p["name"], p["type"], before["slots"], after["slots"], p["rewrites"], p["kernel"],
                                before["verified_insns"], after["verified_insns"], f"{wall:.3f}", peak, notes])
                if p["kernel"] == "rejected" and before["verified_insns"] is not None:
                    bad.append(f"{path}: {p['name']}: rejected")
                if after["slots"] > before["slots"]:
                    bad.append(f"{path}: {p['name']} grew")
                if "differ" in notes:
                    bad.append(f"{path}: {p['name']}: {notes}")
    print(file=sys.stderr)
    before, after = sum(b for b, _ in programs), sum(a for _, a in programs)
    mean = sum(1 - a / b for b, a in programs if b) / max(1, len(programs))
    print(f"{len(objects)} objects, {len(programs)} programs, {before} -> {after} slots, mean reduction {mean:.2%}")
    print(f"slowest {slowest[0]:.1f} s ({slowest[1]}), most memory {largest[0] / 2**20:.0f} MiB ({largest[1]})")
    for line in bad:
        print("PROBLEM", line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
