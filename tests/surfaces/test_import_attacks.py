"""Proves on the wire and on the command line that hostile imports end in an answer, and the server goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.attacks.hostile_imports import ATTACKS, archive, bomb, crowded, odd_archive
from tests.support.cli import Cli
from tests.support.server import TestServer

_GOOD = b"The bridge has nine arches."


# One that fills the list of problems would hide the others.
_TOGETHER = [attack for attack in ATTACKS if attack.name != "lists of nothing"]


def _all_at_once() -> bytes:
    files = {f"{n:03} {path}": data for n, attack in enumerate(_TOGETHER) for path, data in attack.files().items()}
    return archive(files | {"zz.md": _GOOD})


@pytest.mark.slow
async def test_every_hostile_file_in_one_archive_is_answered_over_rest(server: TestServer) -> None:
    path = f"/api/workspaces/{server.start.workspace_id}/import"
    async with server.client() as client:
        answer = await client.post(path, content=_all_at_once(), timeout=300)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        named = {problem["file"][:3] for problem in told["problems"]}
        refused = {f"{number:03}" for number, attack in enumerate(_TOGETHER) if attack.told}
        assert refused <= named
        found = await client.get(f"/api/workspaces/{server.start.workspace_id}/memories", params={"limit": 200})
        assert any(each["content"] == _GOOD.decode() for each in found.json()["items"])
        again = (await client.post(path, content=_all_at_once(), timeout=300)).json()
        assert again["created"] == {}


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (odd_archive, 200, "link or a device"),
        (bomb, 200, "over 8 MB"),
        (crowded, 422, "too many files"),
        (lambda: b"PK\x03\x04" + b"\xff" * 1_000, 422, "not a ZIP archive"),
        (lambda: b"\xff\xfe\x00", 200, "not UTF-8"),
        (lambda: b"[" * 500_000, 200, "is not JSON"),
    ],
    ids=["odd", "bomb", "crowded", "broken", "binary", "deep"],
)
async def test_a_hostile_body_is_answered_with_the_reason(
    server: TestServer, body: Callable[[], bytes], status: int, told: str
) -> None:
    async with server.client() as client:
        answer = await client.post(f"/api/workspaces/{server.start.workspace_id}/import", content=body())
        assert (answer.status_code, told in answer.text) == (status, True), answer.text
        assert (await client.get("/healthz")).status_code == 200


async def test_an_import_lands_in_the_named_workspace_only(server: TestServer) -> None:
    other = await server.another_tenant()
    async with server.client() as client:
        answer = await client.post(f"/api/workspaces/{other.workspace_id}/import", content=_GOOD)
        assert answer.status_code == 404
    minted = await server.mint(owner=other.owner, project_id=other.project_id)
    async with server.client(minted.secret) as client:
        listed = await client.get(f"/api/workspaces/{other.workspace_id}/memories")
        assert listed.json()["items"] == []


def test_the_command_names_each_hostile_file_and_writes_nothing_beside(sqlite_path: Path, tmp_path: Path) -> None:
    holdfast = Cli(sqlite_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    package = folder / "odd.zip"
    package.write_bytes(odd_archive())
    result = holdfast.run("import", package)
    assert result.exit_code == 0
    assert "link.md: it is a link or a device" in result.output
    assert "\x1b" not in result.output and "\x07" not in result.output
    assert [each.name for each in folder.iterdir()] == ["odd.zip"]
    assert not list(tmp_path.rglob("climbed.md"))
