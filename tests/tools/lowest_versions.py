"""Prints requirements for pip: the lowest version of each dependency that pyproject.toml allows.

The dependencies and the extras of users are pinned to their lower bounds, the tools of development to the versions in
constraints.txt. torch is too: only some of its builds come without CUDA. `make test-lowest` installs what is printed.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("train", "onnx", "analysis", "zst")
BOUND = re.compile(r"([\w.-]+)>=([\w.]+)")


def lowest_requirements(torch_version: str | None = None) -> list[str]:
    """The pins, e.g. "h5py==3.12"; requirements without a lower bound stay as they are.

    Args:
        torch_version: of torch, in place of that in constraints.txt.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = dict(re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M))
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(requirement for extra in EXTRAS for requirement in extras[extra])]
    lowest = {}
    for requirement in requirements:
        name, version = BOUND.match(requirement).groups()
        lowest[name] = f"{name}=={version}"
    lowest["torch"] = f"torch=={torch_version or pinned['torch']}"
    for requirement in extras["dev"]:
        name = re.match(r"[\w.-]+", requirement).group()
        if name != "elmo-hf" and name not in lowest:
            lowest[name] = f"{name}=={pinned[name]}" if name in pinned else requirement
    return list(lowest.values())


if __name__ == "__main__":
    print("\n".join(lowest_requirements(*sys.argv[1:])))
