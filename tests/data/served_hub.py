"""A hub of data sets on this machine: as much of the Hugging Face hub's HTTP interface as streaming asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

NAME = "someone/mails"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class ServedHub:
    """One data set, the files of a folder; ``asked`` are the requests that came.

    Files whose names begin with ``gone`` are listed and cannot be had.
    """

    folder: Path
    address: str = ""
    asked: list[str] = field(default_factory=list)
    gone: str | None = None

    def info(self) -> dict[str, Any]:
        """What the hub tells of a data set."""
        names = [path.relative_to(self.folder).as_posix() for path in self.files()]
        return {
            "id": NAME,
            "author": NAME.split("/")[0],
            "sha": COMMIT,
            "private": False,
            "disabled": False,
            "gated": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [{"rfilename": name} for name in names],
        }

    def files(self) -> list[Path]:
        """All there are."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def entry(self, path: Path) -> dict[str, Any]:
        """A file or folder in a listing."""
        name = path.relative_to(self.folder).as_posix()
        if path.is_dir():
            return {"type": "directory", "path": name, "oid": "0" * 40, "size": 0}
        return {"type": "file", "path": name, "oid": self.etag(path), "size": path.stat().st_size}

    def etag(self, path: Path) -> str:
        """What tells a file's content."""
        return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def serving(folder: Path) -> Iterator[ServedHub]:
    """A hub that serves a folder while the block runs."""
    hub = ServedHub(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ServedHub

    def log_message(self, *parts: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Anything that is read."""
        self._answer({})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Questions for some paths."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        form = "json" in (self.headers.get("Content-Type") or "")
        self._answer(json.loads(body) if form else parse_qs(body.decode()))

    def _answer(self, given: dict[str, Any]) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        api, files = f"/api/datasets/{NAME}", f"/datasets/{NAME}/resolve/"
        if path == api or path.startswith(f"{api}/revision/"):
            self._send(json.dumps(self.hub.info()).encode())
        elif path.startswith(f"{api}/paths-info/"):
            paths = (self.hub.folder / each for each in given.get("paths", ()))
            self._send(json.dumps([self.hub.entry(each) for each in paths if each.exists()]).encode())
        elif path.startswith(f"{api}/tree/"):
            _, _, below = path.removeprefix(f"{api}/tree/").partition("/")
            deep = "recursive=true" in self.path.lower()
            found = sorted((self.hub.folder / below).glob("**/*" if deep else "*"))
            self._send(json.dumps([self.hub.entry(each) for each in found]).encode())
        elif path.startswith(files):
            self._file(self.hub.folder / path.removeprefix(files).partition("/")[2])
        else:
            self._send(b'{"error": "not found"}', 404)

    def _file(self, path: Path) -> None:
        """A file or a range of it."""
        if not path.is_file() or (self.hub.gone and path.name.startswith(self.hub.gone)):
            self._send(b"Entry not found", 404, {"X-Error-Code": "EntryNotFound"})
            return
        data = path.read_bytes()
        headers = {"ETag": f'"{self.hub.etag(path)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(data, 200, headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        end = min(int(last), len(data) - 1) if last else len(data) - 1
        headers["Content-Range"] = f"bytes {first}-{end}/{len(data)}"
        self._send(data[int(first) : end + 1], 206, headers)

    def _send(self, body: bytes, code: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
