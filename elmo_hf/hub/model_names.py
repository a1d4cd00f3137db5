"""Resolves the name of a model: a folder, a model that comes with the package, or a repository on the Hub.

The bundled models are the folders of `elmo_hf/bundled` that hold a config.json. A name that cannot be resolved is one
error at once: the client of the Hub would retry every file for half a minute, and not say which name it looked for.
"""

import difflib
import os
import time
from functools import lru_cache
from pathlib import Path

BUNDLED = Path(__file__).resolve().parents[1] / "bundled"
CONFIG = "config.json"
# One request shows whether the Hub can be reached; its answer holds for a while.
TIMEOUT_SECONDS, VALID_SECONDS = 5, 60


def bundled_names() -> list[str]:
    """The names of the models that come with the package.

    Example:

    ```python
    >>> from elmo_hf.hub.model_names import bundled_names
    >>> "english" in bundled_names()
    True

    ```
    """
    return sorted(path.parent.name for path in BUNDLED.glob(f"*/{CONFIG}"))


def bundled_folder(name: str) -> str:
    """The folder of a bundled model."""
    if name not in bundled_names():
        raise ValueError(f"Invalid `name`: {name!r}. Expected a bundled model: {', '.join(bundled_names())}.")
    return str(BUNDLED / name)


def find_model(name: str) -> tuple[str, str | None]:
    """The folder of a bundled model, or the name itself; and a remark where a folder hides a bundled model.

    A folder of the name in the working directory has priority over a bundled model.

    Example:

    ```python
    >>> from elmo_hf.hub.model_names import find_model
    >>> find_model("someone/their-elmo")
    ('someone/their-elmo', None)

    ```
    """
    if name not in bundled_names():
        return name, None
    if not os.path.isdir(name):
        return bundled_folder(name), None
    return name, (
        f"{name} is the folder {os.path.abspath(name)}, not the model that comes with the package, "
        f"which is at {bundled_folder(name)}"
    )


def resolve_model(
    name: str | os.PathLike,
    revision: str | None = None,
    cache_dir: str | os.PathLike | None = None,
    local_files_only: bool = False,
) -> str:
    """The folder, or the repository on the Hub, that a model's name stands for.

    Without a connection, a repository stands for its copy in the cache.

    Args:
        name: a folder, the name of a bundled model, or a repository on the Hub, OWNER/NAME.
        revision: the revision of the repository. Default: its main branch.
        cache_dir: the cache of the Hub's client. Default: the client's own.
        local_files_only: do not connect to the Hub.

    Raises:
        OSError: if there is no such model, with the most similar name.

    Example:

    ```python
    >>> from pathlib import Path
    >>> from elmo_hf.hub.model_names import resolve_model
    >>> Path(resolve_model("english")).parts[-3:]
    ('elmo_hf', 'bundled', 'english')

    ```
    """
    name, _ = find_model(os.fspath(name))
    if os.path.exists(name):
        return name
    expected = (
        f"Expected a folder, a bundled model ({', '.join(bundled_names())}), or a repository on the Hub, OWNER/NAME."
    )
    if os.path.isabs(name) or name.startswith(".") or name.count("/") != 1 or "\\" in name:
        raise OSError(f"{name} does not exist. {expected}{_suggestion(name)}")
    from huggingface_hub.constants import ENDPOINT, is_offline_mode

    offline = local_files_only or is_offline_mode()
    if not offline and _is_reachable(ENDPOINT, int(time.monotonic() / VALID_SECONDS)):
        return name
    cached = _cached_snapshot(name, revision, cache_dir)
    if cached is not None:
        return name if offline else cached
    reason = "the Hub may not be asked (offline mode)" if offline else f"the Hub ({ENDPOINT}) cannot be reached"
    raise OSError(f"{name} is not a folder, is not in the cache, and {reason}. {expected}{_suggestion(name)}")


def _suggestion(name: str) -> str:
    """The most similar of the folders beside the missing one and of the bundled models, as a question."""
    parent, last = os.path.split(name.rstrip("/\\"))
    try:
        folders = [entry.name for entry in os.scandir(parent or ".") if entry.is_dir()]
    except OSError:
        folders = []
    close = difflib.get_close_matches(last, folders, 1)
    if close:
        return f" Did you mean the folder {os.path.join(parent, close[0])}?"
    close = difflib.get_close_matches(name.lower(), bundled_names(), 1)
    return f" Did you mean {close[0]}?" if close else ""


@lru_cache(maxsize=4)
def _is_reachable(endpoint: str, period: int) -> bool:
    """Whether the Hub answers at all; `period` makes a cached answer expire."""
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint, timeout=TIMEOUT_SECONDS)
    except Exception:  # the class of the error depends on the version of huggingface_hub
        return False
    return True


def _cached_snapshot(name: str, revision: str | None, cache_dir: str | os.PathLike | None) -> str | None:
    """The folder of a repository in the cache of the Hub's client; None if it is not there."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, CONFIG, None if cache_dir is None else os.fspath(cache_dir), revision)
    except HFValidationError:
        return None
    return os.path.dirname(path) if isinstance(path, str) else None


__all__ = ["bundled_folder", "bundled_names", "find_model", "resolve_model"]
