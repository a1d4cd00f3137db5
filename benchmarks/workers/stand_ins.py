"""Stand-ins for packages that AllenNLP imports and its ELMo never calls.

`install()` makes every import of them succeed: each module has any attribute asked for, and each attribute is an empty
class. The exception is `cached_path`, which ELMo does call: with files that are on this machine already.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGES = (
    "base58",
    "cached_path",
    "fairscale",
    "huggingface_hub",
    "lmdb",
    "more_itertools",
    "nltk",
    "pytest",
    "requests",
    "scipy",
    "sentencepiece",
    "sklearn",
    "spacy",
    "tensorboardX",
    "termcolor",
    "torchvision",
    "traitlets",
    "transformers",
    "wandb",
)


class StandIn(ModuleType):
    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class StandIns(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path=None, target=None):
        known = fullname.partition(".")[0] in PACKAGES
        return ModuleSpec(fullname, self, is_package=True) if known else None

    def create_module(self, spec: ModuleSpec):
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType):
        module.__path__ = []
        if module.__name__ == "cached_path":
            module.cached_path = lambda path, **options: path


def install():
    # Before all others: some of these are installed, in versions that AllenNLP cannot use.
    sys.meta_path.insert(0, StandIns())
