import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from fork_server import run_forked
from local_hub import TOKEN, LocalHub

WEIGHTS = bytes(range(256)) * 64
IMPORTS = """
import sys
from pathlib import Path
from huggingface_hub import HfApi, errors, get_hf_file_metadata, hf_hub_download, hf_hub_url, snapshot_download
api = HfApi()
"""


@pytest.fixture
def hub():
    with LocalHub() as hub:
        yield hub


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "deep er").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "elmo"}')
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    (folder / "deep er" / "weiß.txt").write_text("nested")
    return folder


def client(hub: LocalHub, script: str, *arguments: object, **env: str) -> str:
    """What `script` prints, run by the real client in a process of its own."""
    # The variables of whoever runs the tests must not lead the client to another Hub or cache.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment = {**inherited, "NO_PROXY": "127.0.0.1", **hub.env, **env}
    run = run_forked(["-W", "ignore", "-c", IMPORTS + script, *arguments], environment, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


PUSH = """
api.create_repo("tester/elmo", private=True)
api.upload_folder(repo_id="tester/elmo", folder_path=sys.argv[1])
"""
LOAD = """
folder = Path(snapshot_download("tester/elmo"))
print(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))
print(len((folder / "model.safetensors").read_bytes()))
"""


def test_a_pushed_folder_is_loaded_and_then_found_in_the_cache_when_offline(hub, model):
    client(hub, PUSH, model)
    assert hub.files("tester/elmo") == {
        "config.json": b'{"model_type": "elmo"}',
        "deep er/weiß.txt": b"nested",
        "model.safetensors": WEIGHTS,
    }
    requests = [(method, re.sub(r"^/lfs/\w+", "/lfs/OID", path)) for method, path in hub.log]
    assert ("POST", "/tester/elmo.git/info/lfs/objects/batch") in requests
    assert requests.count(("PUT", "/lfs/OID")) == 1
    assert ("POST", "/lfs/OID/verify") in requests

    loaded = client(hub, LOAD)
    assert loaded.splitlines() == ["['config.json', 'deep er/weiß.txt', 'model.safetensors']", str(len(WEIGHTS))]
    hub.log.clear()
    assert client(hub, LOAD, HF_HUB_OFFLINE="1") == loaded
    assert hub.log == []


def test_everything_a_client_asks_of_a_repository(hub, model):
    client(
        hub,
        PUSH
        + """
assert api.whoami()["name"] == "tester"
assert api.repo_exists("tester/elmo") and not api.repo_exists("tester/other")
assert api.model_info("tester/elmo").private
assert [file.path for file in api.list_repo_tree("tester/elmo")] == ["config.json", "model.safetensors"]
assert [file.path for file in api.list_repo_tree("tester/elmo", "deep er")] == ["deep er/weiß.txt"]
(weights,) = api.get_paths_info("tester/elmo", ["model.safetensors", "absent"])
assert weights.lfs.size == 256 * 64
assert get_hf_file_metadata(hf_hub_url("tester/elmo", "config.json")).size == 22
assert api.file_exists("tester/elmo", "deep er/weiß.txt") and not api.file_exists("tester/elmo", "absent")

first = api.list_repo_refs("tester/elmo").branches[0].target_commit
api.create_branch("tester/elmo", branch="feature/x")
api.upload_file(repo_id="tester/elmo", revision="feature/x", path_or_fileobj=b"new", path_in_repo="config.json")
assert Path(hf_hub_download("tester/elmo", "config.json", revision="feature/x")).read_bytes() == b"new"
assert Path(hf_hub_download("tester/elmo", "config.json", revision=first)).read_bytes() != b"new"
api.upload_file(repo_id="tester/elmo", path_or_fileobj=b"---\\nlicense: mit\\n---\\n", path_in_repo="README.md")
api.delete_folder("deep er", "tester/elmo")
api.delete_file("config.json", "tester/elmo")
try:
    api.upload_file(repo_id="tester/elmo", path_or_fileobj=b"late", path_in_repo="late", parent_commit=first)
except errors.HfHubHTTPError as error:
    assert error.response.status_code == 412
else:
    raise AssertionError("a commit on a parent that is not the head was accepted")
""",
        model,
    )
    assert sorted(hub.files("tester/elmo")) == ["README.md", "model.safetensors"]


def test_a_deleted_repository_is_gone(hub):
    client(
        hub,
        """
api.create_repo("elmo", repo_type="dataset")
api.create_repo("elmo", repo_type="dataset", exist_ok=True)
api.delete_repo("tester/elmo", repo_type="dataset")
try:
    api.delete_repo("tester/elmo", repo_type="dataset")
except errors.RepositoryNotFoundError:
    pass
else:
    raise AssertionError("a repository was deleted twice")
""",
    )
    assert hub.repos == {}


def test_without_the_token_nothing_is_written_and_nothing_private_is_shown(hub, model):
    client(hub, PUSH, model)
    before = hub.files("tester/elmo")
    client(
        hub,
        """
for attempt, expected in (
    (lambda: api.create_repo("tester/two"), 401),
    (lambda: api.model_info("tester/elmo"), 404),
    (lambda: hf_hub_download("tester/elmo", "config.json", force_download=True), 404),
):
    try:
        attempt()
    except Exception as error:
        while error and not hasattr(error, "response"):
            error = error.__cause__
        assert error and error.response.status_code == expected
    else:
        raise AssertionError("it was allowed")
""",
        HF_TOKEN="hf_wrong",
    )
    assert hub.files("tester/elmo") == before
    assert list(hub.repos) == [("model", "tester/elmo")]


def test_ranges_of_a_file_are_served(hub, model):
    client(hub, PUSH, model)

    def read(span: str) -> tuple[int, bytes]:
        url = f"{hub.url}/tester/elmo/resolve/main/model.safetensors"
        request = urllib.request.Request(url, headers={"Range": span, "Authorization": f"Bearer {TOKEN}"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
            return response.status, response.read()

    assert read("bytes=10-19") == (206, WEIGHTS[10:20])
    assert read("bytes=16380-") == (206, WEIGHTS[16380:])
    with pytest.raises(urllib.error.HTTPError, match="416") as refused:
        read("bytes=16384-")
    refused.value.close()


def test_as_a_program_it_prints_the_variables_and_ends_on_ctrl_c():
    program = [sys.executable, str(Path(__file__).with_name("local_hub.py")), "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        lines = [server.stdout.readline() for _ in range(5)]
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=120)
    assert lines[0].startswith("export HF_ENDPOINT=http://127.0.0.1:")
    assert f"export HF_TOKEN={TOKEN}\n" in lines
    assert (server.returncode, errors) == (0, "Stopped.\n")
