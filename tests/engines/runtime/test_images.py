"""Servers that come as container images: unpacked without a daemon, described from disk, run in the sandbox."""

import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.mcp_client.stdio import open_stdio
from holdfast.engines.runtime.base import RunSpec
from holdfast.engines.runtime.images import Images, UnpackedImage, UnpackerMissing, UnpackFailed, _extract
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.images import layer, write_archive, write_layout
from tests.support.sandbox.programs import HERE, printed

pytestmark = pytest.mark.slow

MANIFEST = {"env": {"TOKEN": {"kind": "secret"}}, "tool_scopes": {"echo": "read"}}
CONFIG = {
    "Env": ["PATH=/bin:/usr/bin", "GREETING=hello"],
    "Cmd": ["/bin/sh", "-c", "echo $GREETING; cat /mcp-manifest.json"],
}


@pytest.fixture(autouse=True)
def needs_umoci() -> None:
    if shutil.which("umoci") is None:
        pytest.skip("umoci is not installed; on Debian: apt-get install umoci")


def with_libraries(*programs: str) -> dict[str, bytes | str]:
    """Programs of this machine and the libraries that they load, as an image would hold them."""
    files: dict[str, bytes | str] = {"mcp-manifest.json": json.dumps(MANIFEST).encode()}
    for program in programs:
        files[f"bin/{Path(program).name}"] = Path(program).resolve().read_bytes()
        loaded = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for word in loaded.split():
            if word.startswith("/"):
                files[word.removeprefix("/")] = Path(word).resolve().read_bytes()
    return files


def spec(image: UnpackedImage, **fields: Any) -> RunSpec:
    return RunSpec("image", image.command, env=image.env, root=image.root, directory=image.directory, **fields)


async def test_a_layout_is_unpacked_once_described_and_run_in_a_root_of_its_own(tmp_path: Path) -> None:
    digest = write_layout(tmp_path / "layout", [layer(with_libraries("/bin/sh", "/bin/cat", "/bin/ls"))], CONFIG)
    images = Images(tmp_path / "images")
    image = await images.unpack(f"oci:{tmp_path}/layout")
    assert image.digest == digest and image.manifest == MANIFEST
    assert image.env["GREETING"] == "hello" and image.command[0] == "/bin/sh"
    assert await images.unpack(f"oci:{tmp_path}/layout:latest") == image == images.find(digest)
    runtime = ProcessRuntime()
    assert await printed(runtime, spec(image)) == "hello\n" + json.dumps(MANIFEST)
    seen = await printed(
        runtime, RunSpec("image", ("/bin/sh", "-c", "ls /; echo x > /bin/x || echo no"), env=image.env, root=image.root)
    )
    assert "mcp-manifest.json" in seen and "etc" not in seen.split() and "no" in seen.split()
    await runtime.close()


async def test_an_image_is_its_programs_to_read_whatever_its_modes_and_the_servers_umask(tmp_path: Path) -> None:
    files = {**with_libraries("/bin/sh", "/bin/cat"), "app/private/note": b"for root alone"}
    config = {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh", "-c", "cat /app/private/note"]}
    write_layout(tmp_path / "layout", [layer(files, {"app/private/note": 0o600})], config)
    # As the server runs: what it writes is its own user's alone, and directories that no layer names are made so.
    before = os.umask(0o077)
    try:
        image = await Images(tmp_path / "images").unpack(f"oci:{tmp_path}/layout")
    finally:
        os.umask(before)
    runtime = ProcessRuntime()
    assert await printed(runtime, spec(image)) == "for root alone"
    await runtime.close()


async def test_an_mcp_server_in_an_image_is_called(tmp_path: Path) -> None:
    """The hostile server, on its good behaviour, with this machine's Python as the image's."""
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip("no Python of the system to put into an image")
    files = with_libraries(python)
    library = next(iter(sorted(Path("/usr/lib").glob("python3.*"))))
    for path in library.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and "test" not in path.parts:
            files[str(path).removeprefix("/")] = path.resolve().read_bytes()
    files["server.py"] = (HERE / "hostile_server.py").read_bytes()
    config = {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/python3", "-I", "/server.py"], "Cmd": ["plain"]}
    write_layout(tmp_path / "layout", [layer(files)], config, tag="v1")
    image = await Images(tmp_path / "images").unpack(f"oci:{tmp_path}/layout:v1")
    runtime = ProcessRuntime()
    connection = await open_stdio(runtime, spec(image))
    assert (await connection.call("echo", {"text": "from an image"})).content[0]["text"] == "from an image"
    await connection.close()
    await runtime.close()


async def test_what_docker_saves_is_read_as_well_and_later_layers_win(tmp_path: Path) -> None:
    layers = [layer(with_libraries("/bin/sh", "/bin/cat")), layer({"mcp-manifest.json": b'{"env": {}}'})]
    write_archive(tmp_path / "saved.tar", layers, CONFIG)
    image = await Images(tmp_path / "images").unpack(f"docker-archive:{tmp_path}/saved.tar")
    assert image.manifest == {"env": {}}


async def test_links_of_an_image_lead_nowhere_on_this_machine(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{}")
    files = with_libraries("/bin/sh", "/bin/cat") | {"mcp-manifest.json": str(secret), "out": "/etc"}
    write_layout(tmp_path / "layout", [layer(files)], CONFIG)
    image = await Images(tmp_path / "images").unpack(f"oci:{tmp_path}/layout")
    assert image.manifest is None
    runtime = ProcessRuntime()
    command = ("/bin/sh", "-c", "cat /out/passwd || echo nothing")
    assert "nothing" in await printed(runtime, RunSpec("image", command, env=image.env, root=image.root))
    await runtime.close()


@pytest.mark.parametrize("name", ["../x", "/../x", "way/x", "file"])
def test_unpacking_writes_nothing_outside(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        for link, target in (("way", str(outside)), ("file", str(outside / "x"))):
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        entry = tarfile.TarInfo(name)
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"evil"))
    with pytest.raises(Invalid, match="outside of itself"):
        _extract(tmp_path / "evil.tar", tmp_path / "into")
    assert list(outside.iterdir()) == [] and not (tmp_path / "x").exists()


def test_unpacking_keeps_what_is_below_and_takes_its_special_rights(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "plain.tar", "w") as tar:
        entry = tarfile.TarInfo("/bin/program")
        entry.size, entry.mode, entry.uid = 4, 0o4755, 12345
        tar.addfile(entry, io.BytesIO(b"text"))
        again = tarfile.TarInfo("again")
        again.type, again.linkname, again.mode = tarfile.LNKTYPE, "/bin/program", 0o755
        tar.addfile(again)
    _extract(tmp_path / "plain.tar", tmp_path / "into")
    found = (tmp_path / "into" / "bin" / "program").stat()
    assert (found.st_mode & 0o7777, found.st_uid) == (0o755, os.getuid())
    assert (tmp_path / "into" / "again").read_text() == "text"


@pytest.mark.parametrize("how", ["hard link", "link of a directory", "name"])
async def test_an_archive_can_not_bring_files_of_this_machine_in(tmp_path: Path, how: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "master.key").write_text("the master key")
    with tarfile.open(tmp_path / "saved.tar", "w") as tar:
        names = {"hard link": "layer", "link of a directory": "way/master.key", "name": "../../../outside/master.key"}
        if how == "link of a directory":
            way = tarfile.TarInfo("way")
            way.type, way.linkname = tarfile.SYMTYPE, str(outside)
            tar.addfile(way)
        if how == "hard link":
            link = tarfile.TarInfo("layer")
            link.type, link.linkname = tarfile.LNKTYPE, "../../../outside/master.key"
            tar.addfile(link)
        text = json.dumps([{"Config": names[how], "Layers": [names[how]]}]).encode()
        manifest = tarfile.TarInfo("manifest.json")
        manifest.size = len(text)
        tar.addfile(manifest, io.BytesIO(text))
    with pytest.raises(Invalid, match="outside of itself"):
        await Images(tmp_path / "images").unpack(f"docker-archive:{tmp_path}/saved.tar")


@pytest.mark.parametrize(
    ("files", "config", "told"),
    [
        ({"mcp-manifest.json": b"no json"}, CONFIG, "is not JSON"),
        ({"mcp-manifest.json": b"[]"}, CONFIG, "is not an object"),
        ({"x": b""}, {}, "neither an entrypoint nor a command"),
    ],
)
async def test_an_image_that_can_not_be_used_says_why(
    tmp_path: Path, files: dict[str, bytes | str], config: dict[str, Any], told: str
) -> None:
    write_layout(tmp_path / "layout", [layer(files)], config)
    with pytest.raises(Invalid, match=told):
        await Images(tmp_path / "images").unpack(f"oci:{tmp_path}/layout")


@pytest.mark.parametrize(
    "image", ["localhost/x:1", "127.0.0.1:5000/x", "10.0.0.1/x", "registry.internal/x", "[::1]:5000/x", "wiki.lan:80/x"]
)
async def test_an_image_is_fetched_from_no_machine_of_an_internal_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str
) -> None:
    """With a podman that has no image and would say where it was sent."""
    podman = tmp_path / "podman"
    podman.write_text(f'#!/bin/sh\n[ "$1" = pull ] && echo "$@" >> {tmp_path}/asked\nexit 1\n')
    podman.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(Invalid, match="not on the public internet"):
        await Images(tmp_path / "images").unpack(image)
    assert not (tmp_path / "asked").exists()
    with pytest.raises(UnpackFailed):
        await Images(tmp_path / "images").unpack("registry.example.com/team/x:1")
    assert "registry.example.com/team/x:1" in (tmp_path / "asked").read_text()


async def test_what_is_no_image_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = Images(tmp_path / "images")
    (tmp_path / "file").write_text("x")
    for name, told in (
        (f"oci:{tmp_path}/nothing", "there is nothing at"),
        (f"oci:{tmp_path}", "not an OCI layout"),
        (f"oci-archive:{tmp_path}/file", "can't be read"),
        (f"docker-archive:{tmp_path}/file", "can't be read"),
    ):
        with pytest.raises(Invalid, match=told):
            await images.unpack(name)
    write_layout(tmp_path / "layout", [layer({"x": b""})], CONFIG)
    with pytest.raises(Invalid, match="no tag 'v2'; it has: latest"):
        await images.unpack(f"oci:{tmp_path}/layout:v2")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnpackerMissing, match="apt-get install umoci"):
        await images.unpack(f"oci:{tmp_path}/layout")
    with pytest.raises(UnpackerMissing, match="apt-get install podman"):
        await images.unpack("registry.example/server:1")
