"""Where original files come from: two files, a folder, a zip or tar, or a repository on the Hub."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from .archives import GZIP_SIGNATURE, SUFFIXES, Archive, open_archive, shown_as, temporary_folder
from .downloads import SourceError, fetch, shown
from .hub_repositories import HubRepository, repository_name
from .known_files import check_not_pointer

__all__ = ["Bundle", "SourceError", "SourceFiles", "fetch", "open_bundles", "open_sources"]

Name = TypeVar("Name", str, str | None)

# Tiers of patterns: the first tier that any name matches decides, and must match one name only.
OPTIONS = (("options.json",), ("*options*.json",))
WEIGHTS = (("weights.hdf5",), ("*weights*.hdf5", "*weights*.h5"), ("*.hdf5", "*.h5"))
VOCABULARY = (("vocab.txt",), ("vocabulary.txt",), ("vocab*.txt",))
NOT_WEIGHTS = ("softmax", "vocab", "embedding")
ANY_WEIGHTS = (".hdf5", ".h5", ".th", ".pkl", ".index", ".safetensors")

TWO_FORMS = (
    "Sources are either two files, OPTIONS.json WEIGHTS.hdf5, or one folder, zip or tar that holds them, or a "
    "repository on the Hub, OWNER/NAME"
)
EXPECTED = (
    "Expected an options file (options.json, or one *options*.json) and beside it the weights (weights.hdf5, or "
    "one *weights*.hdf5, *.hdf5 or *.h5 whose name has none of softmax, vocab, embedding); or the files of another "
    "format, which `elmo-hf convert --help` lists"
)
MAX_LISTED = 20
MAX_NAMES, MAX_DEPTH = 20_000, 4  # of the files in a folder
MAX_TEXT = 1 << 30  # bytes of a list of words


@dataclass(frozen=True)
class SourceFiles:
    """The files of one original model, all on this machine.

    Example:

    ```python
    >>> from pathlib import Path
    >>> from elmo_hf.conversion import SourceFiles
    >>> files = SourceFiles(Path("options.json"), Path("weights.hdf5"))
    >>> files.weights.name, files.vocabulary
    ('weights.hdf5', None)

    ```
    """

    options: Path
    weights: Path
    vocabulary: Path | None = None


@dataclass(frozen=True)
class Bundle:
    """A folder that may hold a model: on this machine, in an archive, or in a repository on the Hub.

    Args:
        where: its name in messages.
        label: its name among the folders of its archive.
        names: the files in and below it, as `variables/variables.index`.
        locate: the paths of some of them on this machine.
        pair: the options and the weights, if these were given in place of a folder.
        options: the options file, if it was given beside an archive.
        root: a local folder, and its name in messages.
        is_local: whether it is a folder on this machine.
    """

    where: str
    label: str
    names: tuple[str, ...]
    locate: Callable[[tuple[str, ...]], list[Path]]
    pair: tuple[Path, ...] = ()
    options: Path | None = None
    root: tuple[str, str] = ("", "")
    is_local: bool = False

    @property
    def top(self) -> list[str]:
        """The files in the folder itself."""
        return [name for name in self.names if "/" not in name]

    def paths(self, *names: str) -> list[Path]:
        """The paths of some files on this machine; an error if one of them is a Git LFS pointer."""
        paths = self.locate(names)
        for path in paths:
            check_not_pointer(path, self.show(path))
        return paths

    def path(self, name: str) -> Path:
        """The path of a file on this machine."""
        return self.paths(name)[0]

    def show(self, path: Path) -> str:
        """The name of a file in messages: that in its archive or repository."""
        return os.fspath(path).replace(*self.root) if self.root[0] else os.fspath(path)


@contextmanager
def open_bundles(
    *sources: str | os.PathLike, cache_dir: str | os.PathLike | None = None
) -> Iterator[tuple[list[Bundle], str]]:
    """The folders that `sources` lead to, and their name in messages. Unpacked files are removed at the end.

    `sources` are two files, the options and the weights, or one folder, zip, tar or repository on the Hub. Each file
    is a local path or an http(s) address, which is downloaded into `cache_dir` as `fetch` does it.
    """
    if len(sources) not in (1, 2):
        raise SourceError(f"{len(sources)} sources were given. {TWO_FORMS}.")
    with ExitStack() as stack:
        if len(sources) == 2:
            yield _open_pair(stack, *sources, cache_dir)
        elif (name := repository_name(sources[0])) is not None:
            yield _open_repository(stack, name)
        else:
            path, where = fetch(sources[0], cache_dir), shown(sources[0])
            yield _open_folder(path) if path.is_dir() else _open_archive(stack, path, where)


def _open_pair(
    stack: ExitStack,
    options: str | os.PathLike,
    weights: str | os.PathLike,
    cache_dir: str | os.PathLike | None,
) -> tuple[list[Bundle], str]:
    """Options and weights, or options and an archive."""
    pair = _two_files(options, weights, cache_dir)
    with pair[1].open("rb") as file:
        is_archive = file.read(2) == GZIP_SIGNATURE
    if is_archive:
        bundles, where = _open_archive(stack, pair[1], shown(weights))
        return [replace(bundle, options=pair[0]) for bundle in bundles], where
    names = tuple(path.name for path in pair)
    return [Bundle(f"{pair[0]} and {pair[1]}", ".", names, lambda names: list(pair), pair)], str(pair[1])


def _open_folder(path: Path) -> tuple[list[Bundle], str]:
    where, names = f"The folder {path}", tuple(_names_in(path))
    return [Bundle(where, ".", names, lambda names: [path / name for name in names], is_local=True)], where


def _open_archive(stack: ExitStack, path: Path, where: str) -> tuple[list[Bundle], str]:
    check_not_pointer(path, where)
    if path.suffix == ".json":
        raise SourceError(f"{where} is one file of two: the weights are missing. {TWO_FORMS}.")
    try:
        archive: Archive = stack.enter_context(open_archive(path, where))
    except SourceError as error:
        raise SourceError(f"{str(error).removesuffix('.')}. {TWO_FORMS}.") from error
    room = stack.enter_context(temporary_folder(where))
    members = archive.members()

    def unpack(names: tuple[str, ...]) -> list[Path]:
        return archive.unpack([members[name] for name in names], room) if names else []

    title = f"the {archive.kind} {where}"
    return _folders(members, title, unpack, (os.fspath(room), where)), f"T{title[1:]}"


def _open_repository(stack: ExitStack, name: str) -> tuple[list[Bundle], str]:
    """The folders of a repository, or of the archive in it, if it holds one and no weights beside it."""
    repository = HubRepository(name)
    names = [file for file in repository.names[:MAX_NAMES] if file.count("/") <= MAX_DEPTH]
    archives = [file for file in names if "/" not in file and file.lower().endswith(SUFFIXES)]
    if len(archives) == 1 and not any(file.lower().endswith(ANY_WEIGHTS) for file in names):
        return _open_archive(stack, repository.download((archives[0],))[0], f"{name}/{archives[0]}")
    stack.enter_context(shown_as(repository.folder, name))
    title = f"the repository {name}"
    return _folders(names, title, repository.download, (os.fspath(repository.folder), name)), f"T{title[1:]}"


def _folders(
    names: Iterable[str],
    where: str,
    locate: Callable[[tuple[str, ...]], list[Path]],
    root: tuple[str, str],
) -> list[Bundle]:
    """Every folder of an archive or repository, as one that may hold a model."""
    inside: dict[str, list[str]] = {".": []}
    for name in names:
        inside["."].append(name)
        for at, letter in enumerate(name):
            if letter == "/":
                inside.setdefault(name[:at], []).append(name[at + 1 :])

    def bundle(folder: str) -> Bundle:
        prefix = "" if folder == "." else f"{folder}/"
        return Bundle(
            f"The folder {folder} of {where}",
            folder,
            tuple(inside[folder]),
            lambda names: locate(tuple(prefix + name for name in names)),
            root=root,
        )

    return [bundle(folder) for folder in sorted(inside)]


@contextmanager
def open_sources(*sources: str | os.PathLike, cache_dir: str | os.PathLike | None = None) -> Iterator[SourceFiles]:
    """The options and HDF5 weights that `sources` lead to, as `open_bundles` finds them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("options.json", "model.hdf5", "softmax.hdf5", "vocab.txt"):
    ...         Path(folder, name).touch()
    ...     with open_sources(folder) as files:
    ...         print(files.options.name, files.weights.name, files.vocabulary.name)
    options.json model.hdf5 vocab.txt
    """
    with open_bundles(*sources, cache_dir=cache_dir) as (bundles, where):
        yield find_files(only_bundle([bundle for bundle in bundles if has_files(bundle)], bundles, where))


def only_bundle(candidates: list[Bundle], bundles: list[Bundle], where: str) -> Bundle:
    """The one folder with a model; if there is none or several, an error that lists what there is."""
    if len(candidates) > 1:
        raise SourceError(
            f"{where} holds models in {len(candidates)} folders: {_listing(bundle.label for bundle in candidates)}. "
            f"{TWO_FORMS}: download or unpack it, and give one of these folders."
        )
    if candidates:
        return candidates[0]
    for bundle in bundles:
        if "config.json" in bundle.top and any(name.endswith(".safetensors") for name in bundle.top):
            raise SourceError(
                f"{bundle.where if len(bundles) > 1 else where} holds a model of transformers, which needs no "
                "conversion: `AutoModel.from_pretrained` loads it, and `elmo-hf export` writes the files of bilm-tf."
            )
    if len(bundles) == 1 and (bundles[0].pair or bundles[0].is_local):
        return bundles[0]  # the error of its format says what is missing
    names = {f"{bundle.label}/{name}".removeprefix("./") for bundle in bundles for name in bundle.top}
    raise SourceError(
        f"No folder of {where[0].lower()}{where[1:]} holds a model; found {_listing(names)}. {EXPECTED}."
    )


def has_files(bundle: Bundle) -> bool:
    """Whether a folder holds options and HDF5 weights."""
    names = bundle.top
    return bool(bundle.pair) or bool(_candidates(names, OPTIONS) and _candidates(names, WEIGHTS, NOT_WEIGHTS))


def find_files(bundle: Bundle) -> SourceFiles:
    """The options, HDF5 weights and vocabulary of a folder."""
    if bundle.pair:
        return SourceFiles(*bundle.pair)
    names = bundle.top
    chosen = (
        only(_candidates(names, OPTIONS), "the options file", names, bundle.where),
        only(_candidates(names, WEIGHTS, NOT_WEIGHTS), "the weights", names, bundle.where),
        *find_vocabulary(bundle),
    )
    return SourceFiles(*bundle.paths(*chosen))


def find_options(bundle: Bundle) -> str | None:
    """The name of a folder's options file, if there is one."""
    return only(_candidates(bundle.top, OPTIONS) or [None], "the options file", bundle.top, bundle.where)


def find_vocabulary(bundle: Bundle) -> list[str]:
    """The name of a folder's vocabulary, or nothing."""
    name = only(_candidates(bundle.top, VOCABULARY) or [None], "the vocabulary", bundle.top, bundle.where)
    return [name] if name else []


def only(candidates: Sequence[Name], role: str, names: list[str], where: str) -> Name:
    """The one candidate for a role, e.g., "the weights"; an error if there is none, or more."""
    if not candidates:
        raise SourceError(f"{where} does not hold {role}, but {_listing(names)}. {EXPECTED}.")
    if len(candidates) > 1:
        raise SourceError(
            f"{where} holds {len(candidates)} files that may be {role}: {_listing(map(str, candidates))}. {EXPECTED}; "
            "to choose, give the two files themselves."
        )
    return candidates[0]


def _two_files(
    options: str | os.PathLike, weights: str | os.PathLike, cache_dir: str | os.PathLike | None
) -> tuple[Path, Path]:
    files = fetch(options, cache_dir), fetch(weights, cache_dir)
    for source, path in zip((options, weights), files, strict=True):
        if not path.is_file():
            raise SourceError(f"{shown(source)} is not a file, and two sources were given. {TWO_FORMS}.")
        check_not_pointer(path, shown(source))
    with files[0].open("rb") as file:
        if file.read(8) == b"\x89HDF\r\n\x1a\n":
            raise SourceError(
                f"{shown(options)} is an HDF5 file where the options belong. {TWO_FORMS}, in this order."
            )
    return files


def _names_in(folder: Path) -> Iterator[str]:
    """The files in a folder and its sub-folders, without the hidden ones."""
    number = 0
    for place, subfolders, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        is_deep = len(inside.parts) >= MAX_DEPTH
        subfolders[:] = [] if is_deep else sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            number += 1
            if number > MAX_NAMES:
                return
            if not name.startswith(".") and (Path(place) / name).is_file():
                yield (inside / name).as_posix()


def _candidates(names: Iterable[str], tiers: tuple[tuple[str, ...], ...], excluded: tuple[str, ...] = ()) -> list[str]:
    names = sorted(name for name in names if not any(word in name.lower() for word in excluded))
    for patterns in tiers:
        matches = [name for name in names if any(fnmatchcase(name.lower(), pattern) for pattern in patterns)]
        if matches:
            return matches
    return []


def _listing(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more if names else "nothing"
