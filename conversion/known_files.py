"""Files that are recognised by their content: pointers of Git LFS, and the released weights."""

import hashlib
import re
from pathlib import Path

from .downloads import SourceError

POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:[a-z0-9.-]+ [^\n]*\n)*?"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)
MAX_POINTER_SIZE = 1024
# The weights of Peters et al. (2018) by size and SHA-256.
RELEASED = {
    54_402_456: (
        "747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229",
        "2x1024_128_2048cnn_1xhighway",
    ),
    374_434_792: (
        "a6b92b9ccbb13fe489faacd2221c795d4bebe84b75f8aded9d85ea464fa5c994",
        "2x4096_512_2048cnn_2xhighway",
    ),
}


def check_not_pointer(path: Path, where: str):
    """Raises if a file is a pointer of Git LFS in place of the file itself."""
    if not path.is_file() or path.stat().st_size > MAX_POINTER_SIZE:
        return
    pointer = POINTER.match(path.read_bytes())
    if pointer:
        checksum, size = pointer[1].decode(), int(pointer[2])
        release = f", the released {RELEASED[size][1]}" if RELEASED.get(size, ("",))[0] == checksum else ""
        raise SourceError(
            f"{where} is a Git LFS pointer and not the file itself, which has {size:,} bytes{release}. Run "
            "`git lfs pull` in its repository to download it."
        )


def released_weights(path: Path) -> tuple[str | None, str | None]:
    """The name of the released weights that a file holds, and a warning if it only has their size.

    The file is hashed only if its size is that of a release.
    """
    checksum, name = RELEASED.get(path.stat().st_size, (None, None))
    if checksum is None:
        return None, None
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() == checksum:
            return name, None
    return None, f"{path.name} has the size of the released {name}, but other content: it was changed or damaged."
