"""The public API as text: every public name, the parameters of functions, the members of classes.

`make api` writes it to tests/public_api.txt and a test compares it, so that every change of the API is a visible diff.
Annotations are left out: they read differently from one Python version to the next, and mypy checks them.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

SNAPSHOT = Path(__file__).resolve().parents[1] / "public_api.txt"
# Packages with a list of public names. elmo_hf.page is not among them: importing its names needs gradio.
PACKAGES = (
    "elmo_hf",
    "elmo_hf.analysis",
    "elmo_hf.bundled",
    "elmo_hf.conversion",
    "elmo_hf.embedding",
    "elmo_hf.kernels",
    "elmo_hf.pretraining",
    "elmo_hf.tasks",
)


def describe_api() -> str:
    """One block for each package, in the order of the alphabet."""
    return "\n".join("\n".join([package, *_describe_package(package)]) + "\n" for package in PACKAGES)


def _describe_package(package: str) -> Iterator[str]:
    module = importlib.import_module(package)
    public = {name: getattr(module, name) for name in sorted(module.__all__)}
    for name, value in public.items():
        if inspect.isclass(value):
            # Members of a public base class are listed there only.
            bases = [base for base in value.__mro__[1:] if base in public.values()]
            inherited = f" of {bases[0].__name__}" if bases else ""
            yield f"  class {name}{_signature(value)}{inherited}"
            yield from (f"    {line}" for line in sorted({*_members(value)} - {*chain(*map(_members, bases))}))
        elif callable(value):
            yield f"  {name}{_signature(value)}"
        else:
            yield f"  {name}: {type(value).__name__}"


def _members(cls: type) -> Iterator[str]:
    """Public methods and properties that classes of this package define; fields are parameters of the class."""
    names = {name for base in cls.__mro__ if base.__module__.startswith("elmo_hf") for name in vars(base)}
    for name in names:
        value = inspect.getattr_static(cls, name)
        function = getattr(value, "__func__", value)
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"{name}: property"
        elif inspect.isfunction(function):
            yield f"{name}{_signature(function)}"


def _signature(value: Any) -> str:
    """Parameters with their defaults, without those that a dataclass inherits from another library."""
    bases = value.__mro__[1:] if inspect.isclass(value) else ()
    foreign = [base for base in bases if dataclasses.is_dataclass(base) and not base.__module__.startswith("elmo_hf")]
    hidden = {field.name for base in foreign for field in dataclasses.fields(base)}
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in hidden
    ]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return re.sub(r"<(\w+)[^<>]* at 0x[0-9a-f]+>", r"<\1>", text)


if __name__ == "__main__":
    SNAPSHOT.write_text(describe_api(), encoding="utf-8")
    print(f"{SNAPSHOT.name}: {SNAPSHOT.read_text(encoding='utf-8').count(chr(10))} lines")
