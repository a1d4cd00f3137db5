"""The build step that compiles the native library into the package; all metadata stands in pyproject.toml."""

import importlib.util
import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

NATIVE = Path("elmo_hf", "kernels", "native")


def load_builder():
    """Imports build.py by its path: the package itself needs torch, which is no requirement of the build."""
    spec = importlib.util.spec_from_file_location("elmo_hf_native_build", NATIVE / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildWithLibrary(build_py):
    """Copies the modules, then compiles the library beside them. Without a compiler the package works, but slower."""

    def run(self):
        """Copies the modules and compiles the library."""
        super().run()
        # An editable install compiles when the library is first used; `make wheel` has compiled for all platforms.
        if self.editable_mode or (NATIVE / "libraries.json").exists() or os.environ.get("ELMO_HF_NATIVE") == "0":
            return
        try:
            names = load_builder().for_installation(Path(self.build_lib) / NATIVE)
        except OSError as error:
            print(f"warning: the native library was not built: {error}", file=sys.stderr)
        else:
            print(f"native library: {', '.join(names) or 'no C compiler found'}", file=sys.stderr)


setup(cmdclass={"build_py": BuildWithLibrary})
