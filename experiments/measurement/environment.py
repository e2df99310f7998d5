"""What a measurement was made on and with."""
import datetime
import os
import platform
import re
import subprocess

from measurement.corpus import ROOT
from measurement.kara import KARA


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None


def processor():
    with open("/proc/cpuinfo") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    return found.group(1) if found else platform.machine()


def record():
    """Kernel, processor, load, compilers, kara's version and commit."""
    changes = first_line("git", "status", "--porcelain", "--untracked-files=no")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "kernel": f"{platform.system()} {platform.release()}",
        "processor": processor(),
        "processors": os.cpu_count(),
        "load": f"{os.getloadavg()[0]:.2f}",
        "kara": first_line(KARA, "--version"),
        "commit": (first_line("git", "rev-parse", "--short", "HEAD") or "?") + (" with changes" if changes else ""),
        "clang 14": first_line("clang-14", "--version"),
        "clang 19": first_line("clang-19", "--version"),
    }


def sentence(environment):
    """One line of Markdown."""
    e = environment
    return (f"{e['date']}: {e['kernel']}, {e['processor']} ({e['processors']} processors, load {e['load']}), "
            f"{e['kara']} at {e['commit']}.")
