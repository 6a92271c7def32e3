"""Owns making container images without any container tool: an OCI layout, or what `docker save` writes."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any


def layer(files: dict[str, bytes | str], modes: dict[str, int] | None = None) -> bytes:
    """A layer with these files; text is where a link leads."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory in sorted({str(Path(name).parent) for name in files} | {"tmp", "proc", "dev"}):
            if directory != ".":
                entry = tarfile.TarInfo(directory)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = (modes or {}).get(name, 0o755)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def configuration(layers: list[bytes], config: dict[str, Any]) -> bytes:
    """The image's own description."""
    digests = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]
    rootfs = {"type": "layers", "diff_ids": digests}
    return json.dumps({"architecture": "amd64", "os": "linux", "config": config, "rootfs": rootfs}).encode()


def write_layout(place: Path, layers: list[bytes], config: dict[str, Any], tag: str = "latest") -> str:
    """An OCI layout; its manifest's digest."""
    blobs = place / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    manifest = {
        "schemaVersion": 2,
        "config": blob(configuration(layers, config), "config.v1+json"),
        "layers": [blob(each, "layer.v1.tar") for each in layers],
    }
    named = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    named["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(named["digest"])


def write_archive(place: Path, layers: list[bytes], config: dict[str, Any]) -> None:
    """What `docker save` writes."""
    files = {f"{index}.tar": each for index, each in enumerate(layers)}
    manifest = [{"Config": "config.json", "RepoTags": ["x:latest"], "Layers": list(files)}]
    files |= {"config.json": configuration(layers, config), "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(place, "w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
