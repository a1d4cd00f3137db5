"""Plain text, a sentence a line."""

import os
from collections.abc import Iterator, Sequence

from tqdm import tqdm

from elmo_hf.text.files import ERRORS, STANDARD_INPUT, find_files, numbered_lines


def read_lines(
    files: str | os.PathLike | Sequence[str | os.PathLike], errors: str = "strict", progress: bool = False
) -> Iterator[str]:
    """The lines of text files that are not blank, one after the other; memory does not grow with the files.

    Args:
        files: paths or patterns as `news/*.txt.gz`; `-` is standard input. What ends in .gz, .xz, .bz2
            or .zst is unpacked.
        errors: what happens to a line that is not UTF-8: `"strict"` names its file and number, `"replace"` and
            `"ignore"` are those of Python.
        progress: show how much of the files has been read.

    Example:

    ```python
    >>> import gzip, pathlib, tempfile
    >>> from elmo_hf import read_lines
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("One line .\\n\\nAnother .\\n")
    >>> _ = (folder / "b.txt.gz").write_bytes(gzip.compress(b"Packed .\\n"))
    >>> list(read_lines(folder / "*.txt*"))
    ['One line .', 'Another .', 'Packed .']

    ```
    """
    if errors not in ERRORS:
        raise ValueError(f"`errors` is {errors!r}; accepted are {', '.join(map(repr, ERRORS))}.")
    paths = find_files(files)
    # Standard input has no size to measure progress by.
    total = None if STANDARD_INPUT in paths else sum(map(os.path.getsize, paths))
    # disable=None: no bar where nobody is watching
    with tqdm(total=total, unit="B", unit_scale=True, disable=None if progress else True) as bar:
        for path in paths:
            for _, line in numbered_lines(path, errors, bar):
                if text := line.strip():
                    yield text
