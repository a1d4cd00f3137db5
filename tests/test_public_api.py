"""The public API against its snapshot: whoever changes a name or a signature changes the snapshot too."""

import runpy

from golden_files import TESTS


def test_the_public_api_is_that_of_the_snapshot():
    tool = runpy.run_path(str(TESTS / "tools" / "public_api.py"))
    snapshot = tool["SNAPSHOT"].read_text(encoding="utf-8").splitlines()
    described = tool["describe_api"]().splitlines()
    added = [line for line in described if line not in snapshot]
    removed = [line for line in snapshot if line not in described]
    assert described == snapshot, f"Renew the snapshot by `make api`. Added: {added}. Removed: {removed}."
