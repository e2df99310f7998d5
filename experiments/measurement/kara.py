"""Running kara and reading its reports."""
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import time

from measurement.corpus import ROOT

KARA = os.environ.get("KARA") or str(
    pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "kara")


@dataclasses.dataclass
class Run:
    """One run of a command."""
    status: int
    out: str
    err: str
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    timed_out: bool

    @property
    def report(self):
        """The JSON object it printed, or None."""
        try:
            return json.loads(self.out)
        except ValueError:
            return None


def run(command, limit_seconds=600):
    """Runs a command; it is ended when the limit is over."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        timed_out = False
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > limit_seconds:
                timed_out = True
                process.kill()
                _, status, usage = os.wait4(process.pid, 0)
                break
            time.sleep(0.005)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - start
        out.seek(0), err.seek(0)
        texts = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    return Run(process.returncode, *texts, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, timed_out)


def optimize(path, name, out, *options, limit_seconds=600):
    """`kara opt` of one program; returns the run and the report of that program, None when there is none."""
    command = [KARA, "opt", path, "-o", out, "--prog", name, "--json", *options]
    done = run(command, limit_seconds)
    report = done.report if done.status == 0 else None
    mine = [p for p in report["programs"] if p["name"] == name] if report else []
    return done, mine[0] if mine else None


def complaint(done):
    """Why a run failed, in a line."""
    if done.timed_out:
        return f"time limit after {done.wall_seconds:.0f} s"
    error = (done.report or {}).get("error", {}).get("message")
    return error or done.err.strip()[-200:] or f"exit status {done.status}"
