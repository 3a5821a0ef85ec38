"""Parts of `compare`: the programs, running them, the machine, and the table."""

import json
import math
import os
import platform
import re
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench" / "peers"
OURS = "fewstep"
WORKS = [
    "dit-small-forward",
    "dit-small-train",
    "dit-small-sample",
    "dag-byte",
    "dag-bpe",
    "vqgan-decode",
    "maskgit-sample",
]
LIBRARIES = ["torch", "jax"]
KEYS = ["peer", "work", "seconds", "best", "peak_bytes", "steps", "version"]


# The programs.


def cores():
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peers_of(work):
    """(name, library, arguments after the interpreter) of every peer that does a work."""
    kind, last = work.rsplit("-", 1)
    threads = ["--threads", str(cores())]
    if kind == "dit-small":
        torch = [str(PEERS / "torch_dit.py"), "--work", last, *threads]
        peers = [
            ("pytorch-eager", "torch", torch),
            ("pytorch-compiled", "torch", [*torch, "--compile"]),
        ]
        if last == "sample":
            peers.append(("pytorch-eager-lean", "torch", [*torch, "--lean"]))
        return peers
    if kind in ["vqgan", "maskgit"]:
        torch = [str(PEERS / f"torch_{kind}.py"), *threads]
        return [
            ("pytorch-eager", "torch", torch),
            ("pytorch-eager-lean", "torch", [*torch, "--lean"]),
            ("pytorch-compiled", "torch", [*torch, "--compile"]),
        ]
    torch = [str(PEERS / "torch_dag.py"), last, *threads]
    return [
        ("pytorch-eager", "torch", torch),
        ("pytorch-eager-lean", "torch", [*torch, "--lean"]),
        ("pytorch-eager-plain", "torch", [*torch, "--plain"]),
        ("pytorch-compiled", "torch", [*torch, "--compile"]),
        ("jax-jit", "jax", [str(PEERS / "jax_dag.py"), last]),
    ]


def programs(work, ours, python, libraries):
    """Name to command of everything that runs for a work, ours first."""
    commands = {OURS: [str(ours), "bench", work, "--json"]}
    for name, library, arguments in peers_of(work):
        if library in libraries:
            commands[name] = [str(python), *arguments]
    return commands


# Running them.


def parse(text, name, work):
    """The result in the one line a program prints; ValueError if it is not one."""
    lines = text.strip().splitlines()
    if len(lines) != 1:
        raise ValueError(f"printed {len(lines)} lines instead of one line of JSON")
    try:
        result = json.loads(lines[0])
    except json.JSONDecodeError:
        raise ValueError(f"printed no JSON: {lines[0][:60]!r}") from None
    missing = [key for key in KEYS if not isinstance(result, dict) or key not in result]
    if missing:
        raise ValueError("left out " + ", ".join(missing))
    if (result["peer"], result["work"]) != (name, work):
        raise ValueError(f"says it is {result['peer']} doing {result['work']}")
    for key in ["seconds", "best", "peak_bytes"]:
        value = result[key]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value <= 0:
            raise ValueError(f"gives {key} as {value!r}")
    return result


def run(command, name, work, timeout):
    """One run: its result, or {"error": why not}."""
    if command is None:
        return {"error": "was not built"}
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True,
            errors="replace", timeout=timeout, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            last = last.replace(str(ROOT), ".")
            return {"error": f"exit code {done.returncode}: {last[:120]}"}
        return parse(done.stdout, name, work)
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {timeout} s"}
    except OSError as error:
        return {"error": f"could not be started: {error.strerror}"}
    except ValueError as error:
        return {"error": str(error)}


def alternate(commands, work, rounds, timeout, say):
    """All programs of a work, round by round; each round starts with another one."""
    runs = {name: [] for name in commands}
    names = list(commands)
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            result = run(commands[name], name, work, timeout)
            outcome = result.get("error") or f"{result['seconds']:.3f} s"
            say(f"{work}, round {number + 1} of {rounds}, {name}: {outcome}")
            runs[name].append(result)
    return runs


# What came out.


def error_of(runs):
    """The first thing that went wrong with a program, or None."""
    return next((result["error"] for result in runs if "error" in result), None)


def seconds_of(runs):
    """Median over the rounds."""
    return statistics.median(result["seconds"] for result in runs)


def peak_of(runs):
    """Largest over the rounds."""
    return max(result["peak_bytes"] for result in runs)


def summary(runs):
    """Seconds, peaks and ratios of one work; programs with an error are left out of the ratios."""
    good = {name: r for name, r in runs.items() if error_of(r) is None}
    out = {
        "seconds": {name: seconds_of(r) for name, r in good.items()},
        "peak_bytes": {name: peak_of(r) for name, r in good.items()},
        "errors": {name: error_of(r) for name, r in runs.items() if name not in good},
    }
    peers = [name for name in good if name != OURS]
    if OURS not in good or not peers:
        return out
    fastest = min(peers, key=out["seconds"].get)
    leanest = min(peers, key=out["peak_bytes"].get)
    ratios = [
        theirs["seconds"] / mine["seconds"]
        for theirs, mine in zip(good[fastest], good[OURS], strict=True)
    ]
    out["fastest_peer"], out["leanest_peer"] = fastest, leanest
    out["ratio"] = {
        "median": statistics.median(ratios), "min": min(ratios), "max": max(ratios),
        "rounds": ratios,
    }  # fmt: skip
    out["memory_ratio"] = out["peak_bytes"][leanest] / out["peak_bytes"][OURS]
    return out


def cell(table, name, form):
    """A number of a program, or what stands for it."""
    return form(table[name]) if name in table else "-"


def as_seconds(value):
    """Seconds with four digits that count."""
    return f"{value:.4g}"


def as_mib(value):
    """Bytes in MiB."""
    return f"{value / 2**20:.0f} MiB"


def row(work, result, peers):
    """The cells of one work."""
    seconds, peaks = result["seconds"], result["peak_bytes"]
    cells = [work]
    for name in [OURS, *peers]:
        failed = name in result["errors"]
        cells.append("failed" if failed else cell(seconds, name, as_seconds))
    if "ratio" in result:
        ratio, leanest = result["ratio"], result["leanest_peer"]
        cells += [
            result["fastest_peer"],
            f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})",
            as_mib(peaks[OURS]),
            f"{as_mib(peaks[leanest])} ({leanest})",
            f"{result['memory_ratio']:.2f}",
        ]
    else:
        cells += ["-", "-", cell(peaks, OURS, as_mib), "-", "-"]
    return cells


def table(results):
    """All works as one Markdown table, columns aligned."""
    ran = {name for r in results.values() for name in [*r["seconds"], *r["errors"]]}
    order = dict.fromkeys(name for work in WORKS for name, _, _ in peers_of(work))
    peers = [name for name in order if name in ran]
    head = ["work", f"{OURS}, s", *(f"{name}, s" for name in peers)]
    head += ["fastest peer", "peer / ours (min-max)", "our peak", "lowest peer peak"]
    rows = [[*head, "peer / ours, memory"]]
    rows += [row(work, result, peers) for work, result in results.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    lines = (
        " | ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))
        for cells in rows
    )
    return "\n".join(f"| {line} |" for line in lines)


def failures(results):
    """A line for each program that failed."""
    return [
        f"{work}, {name}: {error}"
        for work, result in results.items()
        for name, error in result["errors"].items()
    ]


# The machine.


def output(*command):
    """What a command prints, or "unknown"."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip() or "unknown"


def cpu_model():
    """The name of the processor."""
    try:
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        match = None
    if match:
        return match.group(1).strip()
    if platform.system() == "Darwin":
        return output("sysctl", "-n", "machdep.cpu.brand_string")
    return platform.processor() or platform.machine()


def ram_bytes():
    """Memory of the machine, or None."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def machine(versions):
    """All that is needed to read the numbers later."""
    ram = ram_bytes()
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "ram": f"{ram / 2**30:.1f} GiB" if ram else "unknown",
        "os": platform.platform(),
        "rustc": output("rustc", "--version"),
        "commit": output("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
        "load_before": os.getloadavg()[0],
        **{library: versions.get(library, "not used") for library in LIBRARIES},
    }


def slug(text):
    """A name that is fit for a file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()
