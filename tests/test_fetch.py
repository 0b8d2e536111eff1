"""Fetching over real HTTP, from a server on this machine that can misbehave on purpose.

The server knows nothing of the code under test; what it was asked is read from its own log.
"""

import hashlib
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ppe.errors import FetchError, InputError, MissingDataError
from ppe.sources import Patience, Source, SourceFile, available, fetch, locate, read_sources

BRISK = Patience(connect=2.0, read=1.0, attempts=3, pause=0.01)
CONTENTS = {
    "votes.jsonl": b"".join(b'{"vote": %d}\n' % number for number in range(20_000)),
    "notes/LICENSE": "Ünicode and a licence\n".encode(),
    "last.jsonl": b'{"last": true}\n',
}


def source(name: str = "votes", contents: dict[str, bytes] = CONTENTS) -> Source:
    files = tuple(
        SourceFile(path, f"raw/{path}", len(data), hashlib.sha256(data).hexdigest())
        for path, data in contents.items()
    )
    return Source(name, "Votes", "MIT", "nobody", "owner/name", "0" * 40, "http://127.0.0.1:9/", files)


@dataclass
class Request:
    path: str
    range: str | None
    sent: int = 0  # bytes of content


@dataclass
class Server:
    "What the server holds, how it misbehaves, and what it was asked."

    files: dict[str, bytes] = field(default_factory=lambda: {f"/raw/{k}": v for k, v in CONTENTS.items()})
    log: list[Request] = field(default_factory=list)
    cut_after: list[int] = field(default_factory=list)  # bytes after which the next answers are cut
    statuses: list[int] = field(default_factory=list)  # error statuses of the next answers
    ranges: bool = True  # whether Range is honoured
    announce_length: bool = True  # False: the end of the answer is the end of the connection
    stall: threading.Event | None = None  # send nothing until it is set
    address: str = ""

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.log if request.path == f"/raw/{path}"]


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        "The log is kept elsewhere."

    def do_GET(self) -> None:
        plan: Server = self.server.plan
        wanted = self.headers.get("Range")
        plan.log.append(request := Request(self.path, wanted))
        if plan.stall:
            plan.stall.wait(10)
        if plan.statuses:
            return self.send_error(plan.statuses.pop(0))
        if self.path not in plan.files:
            return self.send_error(404)
        content, start = plan.files[self.path], 0
        if wanted and plan.ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if plan.announce_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if plan.cut_after:
            body = body[: plan.cut_after.pop(0)]
        self.close_connection = True
        for at in range(0, len(body), 65536):
            try:
                request.sent += self.wfile.write(body[at : at + 65536])
            except OSError:  # the client hung up
                return


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.plan = Server(address=f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield http.plan
    http.shutdown()
    http.server_close()


def get(server: Server, folder: Path, **changes: object) -> dict[str, Path]:
    arguments = {
        "destination": folder,
        "progress": False,
        "sources": {"votes": source()},
        "base_urls": {"votes": server.address},
        "patience": BRISK,
    }
    return fetch(**arguments | changes)


def on_disk(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


WHOLE = {f"votes/{path}": data for path, data in CONTENTS.items()}


# ---- whole sets


def test_a_set_arrives_whole(server: Server, tmp_path: Path):
    assert get(server, tmp_path) == {"votes": tmp_path / "votes"}
    assert on_disk(tmp_path) == WHOLE
    assert [request.range for request in server.log] == [None] * 3


def test_a_second_fetch_does_not_touch_the_network(server: Server, tmp_path: Path):
    get(server, tmp_path)
    server.log.clear()
    get(server, tmp_path)
    get(server, tmp_path, base_urls={"votes": "http://127.0.0.1:9"})  # nobody listens there
    assert server.log == []


def test_only_what_is_missing_or_altered_is_fetched(server: Server, tmp_path: Path):
    get(server, tmp_path)
    server.log.clear()
    votes = tmp_path / "votes" / "votes.jsonl"
    votes.write_bytes(votes.read_bytes().replace(b'{"vote": 7}', b'{"vote": 8}'))  # same size
    (tmp_path / "votes" / "last.jsonl").unlink()
    get(server, tmp_path)
    assert [request.path for request in server.log] == ["/raw/votes.jsonl", "/raw/last.jsonl"]
    assert on_disk(tmp_path) == WHOLE


def test_a_set_found_in_the_data_directories_is_not_fetched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    get(server, tmp_path)
    server.log.clear()
    monkeypatch.setenv("PPE_DATA_DIR", str(tmp_path))
    assert get(server, tmp_path, destination=None) == {"votes": tmp_path / "votes"}
    assert server.log == []


def test_outside_a_checkout_sets_are_cached_for_the_user(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ppe.__file__", str(tmp_path / "site" / "ppe" / "__init__.py"))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("PPE_DATA_DIR", raising=False)
    assert get(server, tmp_path, destination=None) == {"votes": tmp_path / "cache" / "ppe" / "votes"}
    assert locate("votes", verify=True, sources={"votes": source()}) == tmp_path / "cache" / "ppe" / "votes"
    monkeypatch.setenv("PPE_DATA_DIR", "named")
    assert get(server, tmp_path, destination=None) == {"votes": tmp_path / "named" / "votes"}


def test_the_progress_bar_counts_files(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture):
    get(server, tmp_path, progress=True)
    assert "3/3" in capsys.readouterr().err


# ---- resuming


@pytest.mark.parametrize("announce_length", [True, False], ids=["length announced", "end by closing"])
def test_a_cut_connection_is_resumed_where_it_broke(server: Server, tmp_path: Path, announce_length: bool):
    server.announce_length = announce_length
    server.cut_after = [100_000]
    get(server, tmp_path)
    assert on_disk(tmp_path) == WHOLE
    first, second = server.asked("votes.jsonl")
    assert (first.range, second.range) == (None, "bytes=100000-")
    assert first.sent + second.sent == len(CONTENTS["votes.jsonl"])


def test_what_a_given_up_download_left_is_continued_by_the_next_run(server: Server, tmp_path: Path):
    server.cut_after = [1000] * BRISK.attempts
    with pytest.raises(FetchError, match=r"votes/votes\.jsonl .* 3000 of \d+ bytes are kept"):
        get(server, tmp_path)
    assert on_disk(tmp_path) == {"votes/votes.jsonl.part": CONTENTS["votes.jsonl"][:3000]}
    server.log.clear()
    get(server, tmp_path)
    assert server.log[0].range == "bytes=3000-"
    assert on_disk(tmp_path) == WHOLE


def test_a_server_that_ignores_range_is_read_from_the_start(server: Server, tmp_path: Path):
    server.ranges, server.cut_after = False, [100_000]
    get(server, tmp_path)
    assert on_disk(tmp_path) == WHOLE
    first, second = server.asked("votes.jsonl")
    assert second.range == "bytes=100000-" and second.sent == len(CONTENTS["votes.jsonl"])


def test_a_part_of_another_version_does_not_spoil_the_file(server: Server, tmp_path: Path):
    part = tmp_path / "votes" / "votes.jsonl.part"
    part.parent.mkdir()
    part.write_bytes(b"x" * 5000)
    get(server, tmp_path)
    assert on_disk(tmp_path) == WHOLE
    assert [request.range for request in server.asked("votes.jsonl")] == ["bytes=5000-", None]


@pytest.mark.parametrize("extra", [b"", b"\n"], ids=["too long by nothing", "too long by a byte"])
def test_a_part_that_is_not_shorter_than_the_file_starts_anew(server: Server, tmp_path: Path, extra: bytes):
    part = tmp_path / "votes" / "votes.jsonl.part"
    part.parent.mkdir()
    part.write_bytes(b"x" * len(CONTENTS["votes.jsonl"]) + extra)
    get(server, tmp_path)
    assert on_disk(tmp_path) == WHOLE
    assert [request.range for request in server.asked("votes.jsonl")] == [None]


def test_a_complete_part_only_needs_its_name(server: Server, tmp_path: Path):
    part = tmp_path / "votes" / "votes.jsonl.part"
    part.parent.mkdir()
    part.write_bytes(CONTENTS["votes.jsonl"])
    get(server, tmp_path)
    assert server.asked("votes.jsonl") == []
    assert on_disk(tmp_path) == WHOLE


def test_a_file_that_shrank_on_the_server_cannot_be_resumed_and_is_refused(server: Server, tmp_path: Path):
    part = tmp_path / "votes" / "votes.jsonl.part"
    part.parent.mkdir()
    part.write_bytes(CONTENTS["votes.jsonl"][:5000])
    server.files["/raw/votes.jsonl"] = b"short\n"  # 416, then a file that stays too short
    with pytest.raises(FetchError, match=r"votes/votes\.jsonl"):
        get(server, tmp_path)
    assert set(on_disk(tmp_path)) <= {"votes/votes.jsonl.part"}


# ---- passing trouble


def test_errors_of_the_server_are_tried_again(server: Server, tmp_path: Path):
    server.statuses = [503, 429]
    get(server, tmp_path)
    assert on_disk(tmp_path) == WHOLE
    assert len(server.asked("votes.jsonl")) == 3


def test_the_number_of_attempts_is_bounded(server: Server, tmp_path: Path):
    server.statuses = [500] * 10
    with pytest.raises(
        FetchError, match=r"votes/votes\.jsonl .* gave up after 3 attempts, the last: HTTP 500"
    ):
        get(server, tmp_path)
    assert len(server.log) == 3
    assert on_disk(tmp_path) == {}


def test_a_server_that_stops_sending_is_given_up(server: Server, tmp_path: Path):
    server.stall = threading.Event()
    began = time.monotonic()
    with pytest.raises(FetchError, match=r"votes/votes\.jsonl .* stopped sending"):
        get(server, tmp_path, patience=replace(BRISK, read=0.2, attempts=2))
    server.stall.set()
    assert time.monotonic() - began < 5
    assert on_disk(tmp_path) == {}


# ---- lasting trouble


def test_a_wrong_hash_leaves_nothing(server: Server, tmp_path: Path):
    server.files["/raw/votes.jsonl"] = CONTENTS["votes.jsonl"].replace(b'{"vote": 7}', b'{"vote": 8}')
    with pytest.raises(FetchError, match=r"votes/votes\.jsonl .* SHA-256") as caught:
        get(server, tmp_path)
    assert source().files[0].sha256 in str(caught.value) and "\n" not in str(caught.value)
    assert on_disk(tmp_path) == {}
    assert len(server.log) == 1  # the same bytes would come again


def test_a_file_that_is_too_long_is_not_kept(server: Server, tmp_path: Path):
    server.files["/raw/votes.jsonl"] = CONTENTS["votes.jsonl"] + b"x" * 50_000_000
    with pytest.raises(FetchError, match=r"votes/votes\.jsonl .* more than \d+ bytes"):
        get(server, tmp_path)
    assert on_disk(tmp_path) == {}
    assert server.log[0].sent < 40_000_000  # the client did not wait for the end


def test_a_missing_file_is_named_and_asked_for_once(server: Server, tmp_path: Path):
    del server.files["/raw/notes/LICENSE"]
    with pytest.raises(FetchError, match=r"votes/notes/LICENSE from http://.*/raw/notes/LICENSE: HTTP 404"):
        get(server, tmp_path)
    assert len(server.asked("notes/LICENSE")) == 1
    assert on_disk(tmp_path) == {"votes/votes.jsonl": CONTENTS["votes.jsonl"]}  # what was whole stays
    server.files["/raw/notes/LICENSE"] = CONTENTS["notes/LICENSE"]
    get(server, tmp_path)
    assert len(server.asked("votes.jsonl")) == 1
    assert on_disk(tmp_path) == WHOLE


def test_a_set_that_fails_does_not_keep_the_others_away(server: Server, tmp_path: Path):
    other = source("other", {"lost.jsonl": b"?"})
    with pytest.raises(FetchError, match=r"other/lost\.jsonl .* HTTP 404"):
        get(
            server,
            tmp_path,
            sources={"other": other, "votes": source()},
            base_urls={"other": server.address, "votes": server.address},
        )
    assert on_disk(tmp_path) == WHOLE


def test_no_network_fails_fast_and_is_not_tried_for_the_next_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    connect, asked = socket.socket.connect, []

    def counted(plug: socket.socket, address: tuple[str, int]) -> None:
        asked.append(address)
        connect(plug, address)

    monkeypatch.setattr(socket.socket, "connect", counted)
    with socket.socket() as taken:  # bound but not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        began = time.monotonic()
        with pytest.raises(FetchError, match=r"votes/votes\.jsonl .* cannot be reached") as caught:
            fetch(
                destination=tmp_path,
                progress=False,
                sources={"votes": source(), "other": source("other")},
                base_urls={"votes": address, "other": address},
                patience=replace(BRISK, pause=60.0),  # a second attempt would be noticed
            )
    assert time.monotonic() - began < 5 and len(asked) == 1
    message = str(caught.value)
    assert "\n" not in message and "PPE_DATA_DIR" in message and "also not fetched: other" in message
    assert on_disk(tmp_path) == {}


def test_a_name_that_does_not_resolve_is_no_network_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(FetchError, match=r"nowhere\.invalid cannot be reached"):
        fetch(
            destination=tmp_path,
            progress=False,
            sources={"votes": source()},
            base_urls={"votes": "http://nowhere.invalid"},
            patience=BRISK,
        )
    assert on_disk(tmp_path) == {}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(server: Server, tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(FetchError, match=r"votes/votes\.jsonl .* Permission denied"):
        get(server, tmp_path)
    tmp_path.chmod(0o700)


def test_a_destination_that_is_a_file_is_named(server: Server, tmp_path: Path):
    (tmp_path / "votes").write_text("not a folder")
    with pytest.raises(FetchError, match=r"votes/votes\.jsonl"):
        get(server, tmp_path)


def test_unknown_sets_are_refused_before_anything_is_asked(server: Server, tmp_path: Path):
    with pytest.raises(InputError, match=r"unknown public set arena: known are votes"):
        get(server, tmp_path, names=["arena"])
    with pytest.raises(InputError, match=r"unknown public set vote: known are votes"):
        get(server, tmp_path, base_urls={"vote": server.address})
    assert server.log == [] and on_disk(tmp_path) == {}


# ---- what is on this machine


def test_locate_and_available_follow_what_is_there(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sources = {"votes": source(), "other": source("other")}
    monkeypatch.setenv("PPE_DATA_DIR", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"'votes' is not whole .*no such folder.*make data"):
        locate("votes", sources=sources)
    get(server, tmp_path)
    assert locate("votes", verify=True, sources=sources) == tmp_path / "votes"
    table = available(sources).set_index("set")
    assert table["present"].to_dict() == {"votes": True, "other": False}
    assert table["where"].to_dict() == {"votes": str(tmp_path / "votes"), "other": ""}
    (tmp_path / "votes" / "last.jsonl").rename(tmp_path / "votes" / "last.jsonl.part")
    with pytest.raises(MissingDataError, match=r"last\.jsonl: missing"):
        locate("votes", sources=sources)


def test_the_pinned_sets_are_fetched_from_a_mirror(server: Server, tmp_path: Path):
    "All real sets through the real fetcher, served from the copies on this machine."
    pinned = read_sources()
    try:
        folders = {name: locate(name, verify=True) for name in pinned}
    except MissingDataError as missing:
        pytest.skip(str(missing))
    server.files = {
        f"/{name}/{file.url}": (folders[name] / file.path).read_bytes()
        for name, entry in pinned.items()
        for file in entry.files
    }
    mirrors = {name: f"{server.address}/{name}" for name in pinned}
    fetched = get(server, tmp_path, sources=None, base_urls=mirrors)
    assert list(fetched) == list(pinned) and len(server.log) == len(server.files)
    for name, entry in pinned.items():
        for file in entry.files:
            assert (tmp_path / name / file.path).read_bytes() == (folders[name] / file.path).read_bytes()
