"""Repositories on the Hub with original files: listed first, and only the files that are needed are downloaded."""

import logging
import os
import re
from pathlib import Path
from typing import cast

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import HFValidationError

from .archives import SUFFIXES
from .downloads import SourceError

logger = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
ADDRESS = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([A-Za-z0-9][\w.-]*/[\w.-]+)/?(?:tree/main/?)?")
FILE_SUFFIXES = (*SUFFIXES, ".json", ".hdf5", ".h5", ".th", ".index", ".pkl", ".txt")
# The base of all errors of the HTTP client of huggingface_hub: httpx in version 1, httpx2 in version 2.
HTTP_ERROR = cast(type[Exception], HfHubHTTPError.__bases__[0])
HUB_ERRORS = (OSError, HTTP_ERROR, HFValidationError)


def repository_name(source: str | os.PathLike) -> str | None:
    """The repository, OWNER/NAME, that a source names; None if it is a path or another address.

    >>> repository_name("lysandre/elmo"), repository_name("https://huggingface.co/lysandre/elmo")
    ('lysandre/elmo', 'lysandre/elmo')
    >>> repository_name("models/elmo.zip"), repository_name("elmo")
    (None, None)
    """
    text = os.fspath(source)
    address = ADDRESS.fullmatch(text)
    if address:
        return address[1]
    is_name = NAME.fullmatch(text) and not text.lower().endswith(FILE_SUFFIXES) and not os.path.exists(text)
    return text if is_name else None


class HubRepository:
    """The files of a repository at the newest commit, or what the cache holds of it without a connection.

    Args:
        name: OWNER/NAME.
    """

    def __init__(self, name: str):
        self.name, self._is_cached = name, False
        try:
            # Downloads nothing; the folder has the name of the commit.
            self.folder = Path(snapshot_download(name, allow_patterns=[]))
            self.names = HfApi().list_repo_files(name, revision=self.folder.name)
        except GatedRepoError as error:
            raise SourceError(
                f"The repository {name} on the Hub asks for an agreement to its terms. Agree on its page, and log in "
                "(`hf auth login`)."
            ) from error
        except RepositoryNotFoundError as error:
            raise SourceError(
                f"There is no file or folder {name}, and no public repository of this name on the Hub. For a private "
                "one, log in (`hf auth login`)."
            ) from error
        except HUB_ERRORS as error:
            self._use_cache(error)

    def _use_cache(self, error: Exception):
        try:
            self.folder = Path(snapshot_download(self.name, allow_patterns=[], local_files_only=True))
        except (*HUB_ERRORS, LocalEntryNotFoundError):
            reason = str(error).strip().partition("\n")[0][:200]
            raise SourceError(
                f"There is no file or folder {self.name}, and the Hub cannot be asked for a repository of this name "
                f"({type(error).__name__}: {reason})."
            ) from error
        logger.warning("The Hub cannot be reached; the copy of %s in the cache is used.", self.name)
        self._is_cached = True
        files = (path for path in self.folder.rglob("*") if path.is_file())
        self.names = [path.relative_to(self.folder).as_posix() for path in files]

    def download(self, names: tuple[str, ...]) -> list[Path]:
        """The paths of some files on this machine."""
        return [self._download(name) for name in names]

    def _download(self, name: str) -> Path:
        if self._is_cached:
            return self.folder / name
        try:
            return Path(hf_hub_download(self.name, name, revision=self.folder.name))
        except HUB_ERRORS as error:
            reason = str(error).strip().partition("\n")[0][:200]
            raise SourceError(
                f"{self.name}/{name} cannot be downloaded from the Hub ({type(error).__name__}: {reason})."
            ) from error
