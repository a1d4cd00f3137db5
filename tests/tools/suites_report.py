"""Runs transformers' own test suites on the classes of this package and prints a table of the results.

Each test is passed, failed or not applicable. The reasons why tests are not applicable follow the table: ours, which
tests/transformers_suites lists by name, and those that the suites give themselves. `make suites` runs it. The exit
code is that of pytest.
"""

import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from _pytest.subtests import SubtestReport

SUITES = Path(__file__).resolve().parents[1] / "transformers_suites"
RESULTS = ("passed", "failed", "not applicable")


class Tally:
    """A plugin of pytest that counts results and collects the reasons of skips."""

    def __init__(self):
        self.results: dict[str, Counter] = defaultdict(Counter)  # of each class or file
        self.reasons: dict[str, list[str]] = defaultdict(list)  # reason -> tests

    def pytest_runtest_logreport(self, report: pytest.TestReport):
        """Counts a test by its call, or by its setup if that fails or skips it."""
        if isinstance(report, SubtestReport) and not report.failed:
            return  # the test that it is part of is counted
        parts = report.nodeid.split("::")
        suite = parts[1] if len(parts) > 2 else Path(parts[0]).stem
        if report.skipped:
            self.results[suite]["not applicable"] += 1
            reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else "xfail"
            self.reasons[reason].append(f"{suite}.{parts[-1]}")
        elif report.failed:
            self.results[suite]["failed"] += 1
        elif report.when == "call":
            self.results[suite]["passed"] += 1

    def pytest_collectreport(self, report: pytest.CollectReport):
        """Records suites that cannot be collected, for example because they cannot be downloaded."""
        if report.failed:
            self.results[report.nodeid]["failed"] += 1
        elif report.skipped:
            self.reasons[str(report.longrepr[2])].append(report.nodeid)

    def table(self) -> str:
        """A row for each suite and for all of them, and a paragraph for each reason."""
        total = sum(self.results.values(), Counter())
        rows = [("", *RESULTS)]
        rows += [(name, *(str(counts[result]) for result in RESULTS)) for name, counts in self.results.items()]
        rows.append(("all", *(str(total[result]) for result in RESULTS)))
        width = max(len(row[0]) for row in rows)
        lines = [row[0].ljust(width) + "".join(cell.rjust(16) for cell in row[1:]) for row in rows]
        for reason, tests in sorted(self.reasons.items(), key=lambda item: -len(item[1])):
            names = sorted({test.rpartition(".")[2] for test in tests})
            lines += ["", f"{len(tests)} not applicable: {reason}", f"    {', '.join(names)}"]
        return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Runs the suites with further arguments of pytest."""
    tally = Tally()
    code = pytest.main(["-q", "--no-header", "-p", "no:terminalreporter", *arguments, str(SUITES)], plugins=[tally])
    print(tally.table())
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
