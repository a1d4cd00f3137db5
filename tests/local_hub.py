"""A fake Hugging Face Hub in memory, on loopback; the real client pushes to it and loads from it.

    with LocalHub() as hub:
        subprocess.run([sys.executable, "push.py"], env={**os.environ, **hub.env}, check=True)
        hub.files("tester/my-model")["config.json"]

`python tests/local_hub.py [PORT]` serves until Ctrl-C and prints the variables to set. The client reads
its environment when it is imported, hence the subprocess. Xet is not implemented: `HF_HUB_DISABLE_XET=1`
makes the client use git-lfs.
"""

import base64
import hashlib
import json
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

USER, TOKEN = "tester", "hf_local_token"
LFS_SUFFIXES = (".safetensors", ".bin", ".h5", ".hdf5", ".pt", ".zip", ".npy")
LFS_SIZE = 10_000_000
DATE = "2026-01-01T00:00:00.000Z"


class HubError(Exception):
    def __init__(self, status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **(headers or {})}


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # still percent-encoded: a branch name may hold a slash
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def authorized(self) -> bool:
        return self.headers.get("authorization") == f"Bearer {TOKEN}"

    def json(self) -> dict:
        return json.loads(self.body or b"{}")


@dataclass(frozen=True)
class Response:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class File:
    data: bytes
    lfs: bool

    def entry(self, path: str) -> dict:
        """The file as the Hub's listings show it."""
        blob = hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()
        entry = {"type": "file", "path": path, "size": len(self.data), "oid": blob}
        if self.lfs:
            sha256 = hashlib.sha256(self.data).hexdigest()
            entry["lfs"] = {"oid": sha256, "size": len(self.data), "pointerSize": 130}
        return entry


class Repo:
    def __init__(self, kind: str, repo_id: str, private: bool):
        self.kind, self.id, self.private = kind, repo_id, private
        self.commits: dict[str, dict[str, File]] = {}
        self.branches: dict[str, str] = {}
        self.commit("main", {})

    def commit(self, branch: str, files: dict[str, File]) -> str:
        oid = hashlib.sha1(f"{self.kind} {self.id} {branch} {len(self.commits)}".encode()).hexdigest()
        self.commits[oid] = files
        self.branches[branch] = oid
        return oid

    def at(self, revision: str) -> tuple[str, dict[str, File]]:
        oid = self.branches.get(revision, revision)
        if oid not in self.commits:
            raise HubError(404, f"{self.id} has no revision {revision}.", "RevisionNotFound")
        return oid, self.commits[oid]


class LocalHub:
    def __init__(self, port: int = 0):
        self.repos: dict[tuple[str, str], Repo] = {}
        self.lfs_objects: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), type("BoundHandler", (Handler,), {"hub": self}))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "LocalHub":
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._home.cleanup()

    @property
    def env(self) -> dict[str, str]:
        return {
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": TOKEN,
            "HF_HOME": self._home.name,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }

    def files(self, repo_id: str, kind: str = "model") -> dict[str, bytes]:
        """What the main branch holds."""
        _, files = self.repos[kind, repo_id].at("main")
        return {path: file.data for path, file in files.items()}

    def answer(self, request: Request) -> Response:
        with self._lock:
            self.log.append((request.method, unquote(request.path)))
            method = "GET" if request.method == "HEAD" else request.method
            for route_method, pattern, action in ROUTES:
                match = re.fullmatch(pattern, request.path)
                if match and route_method == method:
                    if action in NEEDS_TOKEN and not request.authorized:
                        raise HubError(401, "Invalid username or password.")
                    fields = {name: unquote(text or "") for name, text in match.groupdict().items()}
                    if "kinds" in fields:
                        kind = fields.pop("kinds").removesuffix("s") or "model"
                        fields["repo"] = self.repo(request, kind, fields.pop("repo_id"))
                    return action(self, request, **fields)
        raise HubError(404, f"The local Hub has no route for {request.method} {request.path}.")

    def repo(self, request: Request, kind: str, repo_id: str) -> Repo:
        repo = self.repos.get((kind, repo_id))
        # Like the real one: a private repository does not show that it exists.
        if repo is None or (repo.private and not request.authorized):
            raise HubError(404, "Repository not found", "RepoNotFound")
        return repo


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: the second would wait 40 ms
    hub: LocalHub

    def handle_request(self) -> None:
        url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, url.path, parse_qs(url.query), headers, b"".join(self.read_body(headers)))
        try:
            response = self.hub.answer(request)
        except HubError as error:
            response = json_response({"error": str(error)}, error.status, error.headers)
        self.send(response)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_request

    def read_body(self, headers: dict[str, str]) -> Iterator[bytes]:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            yield self.rfile.read(int(headers.get("content-length", 0)))

    def send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in {"Content-Length": str(len(response.body)), **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, *args: object) -> None:
        """Silent: `LocalHub.log` has it."""


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(value).encode(), status, {"Content-Type": "application/json", **(headers or {})})


def whoami(hub: LocalHub, request: Request) -> Response:
    access = {"type": "access_token", "accessToken": {"displayName": "local", "role": "write"}}
    return json_response({"type": "user", "id": USER, "name": USER, "fullname": USER, "orgs": [], "auth": access})


def create_repo(hub: LocalHub, request: Request) -> Response:
    form = request.json()
    kind, repo_id = named_repo(form)
    existed = (kind, repo_id) in hub.repos
    if not existed:
        private = form.get("private") or form.get("visibility") == "private"
        hub.repos[kind, repo_id] = Repo(kind, repo_id, bool(private))
    folder = "" if kind == "model" else f"{kind}s/"
    answer = {"url": f"{hub.url}/{folder}{repo_id}", "name": repo_id, "id": repo_id}
    return json_response(answer, 409 if existed else 200)


def delete_repo(hub: LocalHub, request: Request) -> Response:
    kind, repo_id = named_repo(request.json())
    hub.repo(request, kind, repo_id)
    del hub.repos[kind, repo_id]
    return json_response({})


def named_repo(form: dict) -> tuple[str, str]:
    return form.get("type") or "model", f"{form.get('organization') or USER}/{form['name']}"


def create_branch(hub: LocalHub, request: Request, repo: Repo, branch: str) -> Response:
    if branch in repo.branches:
        raise HubError(409, f"Reference already exists: {branch}.")
    repo.branches[branch], _ = repo.at(request.json().get("startingPoint") or "main")
    return json_response({})


def validate_yaml(hub: LocalHub, request: Request) -> Response:
    return json_response({"errors": [], "warnings": []})


def preupload(hub: LocalHub, request: Request, repo: Repo, revision: str) -> Response:
    """Says which files go over git-lfs, and which blobs are there already."""
    _, files = repo.at(revision)
    answers = []
    for upload in request.json()["files"]:
        path = upload["path"]
        mode = "lfs" if path.endswith(LFS_SUFFIXES) or upload["size"] > LFS_SIZE else "regular"
        blob = files[path].entry(path)["oid"] if path in files else None
        answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": blob})
    return json_response({"files": answers})


def lfs_batch(hub: LocalHub, request: Request, repo: Repo) -> Response:
    objects = []
    for upload in request.json()["objects"]:
        item = {"oid": upload["oid"], "size": upload["size"]}
        if upload["oid"] not in hub.lfs_objects:
            href = f"{hub.url}/lfs/{upload['oid']}"
            item["actions"] = {"upload": {"href": href}, "verify": {"href": f"{href}/verify"}}
        objects.append(item)
    return json_response({"transfer": "basic", "objects": objects})


def lfs_put(hub: LocalHub, request: Request, oid: str) -> Response:
    if hashlib.sha256(request.body).hexdigest() != oid:
        raise HubError(400, f"The bytes sent do not have the SHA-256 {oid}.")
    hub.lfs_objects[oid] = request.body
    return Response()


def lfs_verify(hub: LocalHub, request: Request, oid: str) -> Response:
    if oid not in hub.lfs_objects or len(hub.lfs_objects[oid]) != request.json()["size"]:
        raise HubError(404, f"The object {oid} was not uploaded, or has another size.")
    return Response()


def commit(hub: LocalHub, request: Request, repo: Repo, revision: str) -> Response:
    head, files = repo.at(revision)
    files = dict(files)
    for line in request.body.splitlines():
        item = json.loads(line)
        key, value = item["key"], item["value"]
        if key == "header" and value.get("parentCommit") not in (None, head):
            raise HubError(412, f"The parent commit is not {head}, the head of {revision}.")
        elif key == "file":
            files[value["path"]] = File(base64.b64decode(value["content"]), lfs=False)
        elif key == "lfsFile":
            if value["oid"] not in hub.lfs_objects:
                raise HubError(400, f"The LFS object of {value['path']} was not uploaded.")
            files[value["path"]] = File(hub.lfs_objects[value["oid"]], lfs=True)
        elif key == "deletedFile":
            files.pop(value["path"], None)
        elif key == "deletedFolder":
            folder = value["path"].rstrip("/") + "/"
            files = {path: file for path, file in files.items() if not path.startswith(folder)}
    oid = repo.commit(revision, files)
    return json_response({"commitUrl": f"{hub.url}/{repo.id}/commit/{oid}", "commitOid": oid, "success": True})


def info(hub: LocalHub, request: Request, repo: Repo, revision: str = "main") -> Response:
    oid, files = repo.at(revision)
    answer = {"_id": oid[:24], "id": repo.id, "modelId": repo.id, "author": repo.id.split("/")[0], "sha": oid}
    answer |= {"private": repo.private, "gated": False, "disabled": False, "downloads": 0, "likes": 0, "tags": []}
    answer |= {"lastModified": DATE, "createdAt": DATE, "siblings": [{"rfilename": path} for path in sorted(files)]}
    if "config.json" in files:
        answer |= {"library_name": "transformers", "config": json.loads(files["config.json"].data)}
    if "README.md" in files:
        # Of the card's metadata, what a client reads.
        tag = re.search(rb"^pipeline_tag: (\S+)$", files["README.md"].data, re.M)
        answer |= {"pipeline_tag": tag[1].decode()} if tag else {}
    return json_response(answer)


def tree(hub: LocalHub, request: Request, repo: Repo, revision: str, folder: str) -> Response:
    _, files = repo.at(revision)
    prefix = f"{folder.strip('/')}/".lstrip("/")
    paths = [path for path in sorted(files) if path.startswith(prefix)]
    if prefix and not paths:
        raise HubError(404, f"{repo.id} has no folder {prefix}.", "EntryNotFound")
    if request.query.get("recursive", ["false"])[0].lower() != "true":
        paths = [path for path in paths if "/" not in path.removeprefix(prefix)]
    return json_response([files[path].entry(path) for path in paths])


def paths_info(hub: LocalHub, request: Request, repo: Repo, revision: str) -> Response:
    _, files = repo.at(revision)
    form = request.json() if request.body.startswith(b"{") else parse_qs(request.body.decode())
    return json_response([files[path].entry(path) for path in form.get("paths", []) if path in files])


def refs(hub: LocalHub, request: Request, repo: Repo) -> Response:
    branches = [{"name": n, "ref": f"refs/heads/{n}", "targetCommit": oid} for n, oid in repo.branches.items()]
    return json_response({"branches": branches, "converts": [], "tags": [], "pullRequests": []})


def resolve(hub: LocalHub, request: Request, repo: Repo, revision: str, path: str) -> Response:
    oid, files = repo.at(revision)
    if path not in files:
        raise HubError(404, f"{repo.id} has no file {path}.", "EntryNotFound", {"X-Repo-Commit": oid})
    file = files[path]
    data, entry = file.data, file.entry(path)
    etag = f'"{entry["lfs"]["oid"] if file.lfs else entry["oid"]}"'
    headers = {
        "ETag": etag,
        "X-Repo-Commit": oid,
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
    }
    if file.lfs:
        headers |= {"X-Linked-Etag": etag, "X-Linked-Size": str(len(data))}
    byte_range = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    if not byte_range:
        return Response(data, 200, headers)
    first, last = int(byte_range[1]), min(int(byte_range[2] or len(data)), len(data) - 1)
    if first > last:
        raise HubError(416, "The range lies behind the end.", headers={"Content-Range": f"bytes */{len(data)}"})
    return Response(data[first : last + 1], 206, headers | {"Content-Range": f"bytes {first}-{last}/{len(data)}"})


NAME = r"(?P<repo_id>[\w.-]+/[\w.-]+)"
REPO = rf"/api/(?P<kinds>models|datasets|spaces)/{NAME}"
FILES = rf"/(?:(?P<kinds>datasets|spaces)/)?{NAME}"
REVISION, BRANCH, OID = r"(?P<revision>[^/]+)", r"(?P<branch>[^/]+)", r"(?P<oid>[0-9a-f]{64})"

ROUTES: list[tuple[str, str, Callable[..., Response]]] = [
    ("GET", "/api/whoami-v2", whoami),
    ("POST", "/api/repos/create", create_repo),
    ("DELETE", "/api/repos/delete", delete_repo),
    ("POST", "/api/validate-yaml", validate_yaml),
    ("POST", f"{REPO}/branch/{BRANCH}", create_branch),
    ("POST", f"{REPO}/preupload/{REVISION}", preupload),
    ("POST", f"{REPO}/commit/{REVISION}", commit),
    ("POST", f"{REPO}/paths-info/{REVISION}", paths_info),
    ("GET", f"{REPO}/refs", refs),
    ("GET", f"{REPO}/tree/{REVISION}(?P<folder>/.*)?", tree),
    ("GET", f"{REPO}/revision/{REVISION}", info),
    ("GET", REPO, info),
    ("POST", rf"{FILES}\.git/info/lfs/objects/batch", lfs_batch),
    ("PUT", f"/lfs/{OID}", lfs_put),
    ("POST", f"/lfs/{OID}/verify", lfs_verify),
    ("GET", f"{FILES}/resolve/{REVISION}/(?P<path>.+)", resolve),
]
NEEDS_TOKEN = {whoami, create_repo, delete_repo, create_branch, preupload, commit, lfs_batch}


if __name__ == "__main__":
    # A shell's background job ignores Ctrl-C, and so would this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with LocalHub(int(sys.argv[1]) if len(sys.argv) > 1 else 8077) as local_hub:
            for variable, setting in local_hub.env.items():
                print(f"export {variable}={setting}", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
