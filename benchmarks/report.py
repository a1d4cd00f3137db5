"""From measurements to tables: medians over rounds, and ratios taken inside of each round."""

import os
import platform
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

from programs import BILM, LIMIT, OURS, PROGRAMS, REMEMBERED, SIMPLE_ELMO

README = Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- last run -->", "<!-- end of last run -->"

# Program name -> one number per round.
Rounds = dict[str, list[float]]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def spread(values: list[float], form: Callable[[float], str]) -> str:
    """Median (lowest-highest)."""
    if not values:
        return "-"
    return f"{form(median(values))} ({form(min(values))}-{form(max(values))})"


def ratio(value: float) -> str:
    digits = 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:.{digits}f}"


def ratios(over: list[float], under: list[float]) -> list[float]:
    return [a / b for a, b in zip(over, under, strict=True)]


def best_of(rounds: Rounds, names: Iterable[str]) -> list[float]:
    """In each round the highest of these programs."""
    return [max(values) for values in zip(*(rounds[name] for name in names if name in rounds), strict=True)]


def speed_tables(size: str, speeds: dict[int, Rounds]) -> list[str]:
    """`speeds`: batch size -> tokens/s of each program in each round."""
    present = [p.name for p in PROGRAMS if p.name in next(iter(speeds.values()))]
    head = [f"batch {n}" for n in speeds]
    lines = [f"### {size}: tokens/s, median over rounds (lowest-highest)", ""]
    lines += table(
        ["", *head],
        ([name, *(spread(rounds[name], lambda x: f"{x:.0f}") for rounds in speeds.values())] for name in present),
    )
    ours, tensorflow = OURS.name, [p.name for p in (BILM, SIMPLE_ELMO) if p.name in present]
    if ours not in present:
        return lines
    lines += [f"### {size}: ratios of tokens/s, median of each round's ratio (lowest-highest)", ""]
    against: list[tuple[str, Callable[[Rounds], list[float]]]] = []
    if len(tensorflow) > 1:
        for name in (ours, REMEMBERED.name):
            if name in present:
                label = f"{name} / the faster of {' and '.join(tensorflow)}"
                against.append((label, lambda r, name=name: ratios(r[name], best_of(r, tensorflow))))
    for name in present:
        if name == ours:
            continue
        if name == LIMIT.name:
            against.append((f"{ours} / limit", lambda r: ratios(r[ours], r[LIMIT.name])))
        elif name.startswith(ours):
            against.append((f"{name} / {ours}", lambda r, name=name: ratios(r[name], r[ours])))
        else:
            against.append((f"{ours} / {name}", lambda r, name=name: ratios(r[ours], r[name])))
    lines += table(
        ["", *head], ([label, *(spread(of(rounds), ratio) for rounds in speeds.values())] for label, of in against)
    )
    return lines


def start_table(size: str, batch_size: int, starts: dict[str, Rounds]) -> list[str]:
    """`starts`: what ("load", "first", "peak") -> each program's numbers in each round."""
    ours = OURS.name
    names = list(starts["load"])
    columns = {
        "load": ("load, s", lambda x: f"{x:.2f}"),
        "first": ("load and one sentence, s", lambda x: f"{x:.2f}"),
        "peak": (f"peak memory at batch {batch_size}, MB", lambda x: f"{x / 2**20:.0f}"),
    }
    lines = [f"### {size}: fresh processes, median (lowest-highest)", ""]
    lines += table(
        ["", *(title for title, _ in columns.values())],
        ([name, *(spread(starts[what][name], form) for what, (_, form) in columns.items())] for name in names),
    )
    peers = [name for name in names if not name.startswith(ours)]
    if ours in names and peers:
        lines += table(
            ["", *(title.partition(",")[0] for title, _ in columns.values())],
            (
                [
                    f"{ours} / {name}",
                    *(spread(ratios(starts[what][ours], starts[what][name]), ratio) for what in columns),
                ]
                for name in peers
            ),
        )
    return lines


def machine() -> str:
    """Processor, number of processors in use, system, Python."""
    model = platform.processor() or platform.machine()
    try:
        model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()).group(1)
    except (OSError, AttributeError):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} processors, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def save(report: str, begin: str = BEGIN, end: str = END):
    """Puts the report in the README between two marks, in place of the last one."""
    before, _, rest = README.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    README.write_text(f"{before}{begin}\n\n{report.strip()}\n\n{end}{after}", encoding="utf-8")
