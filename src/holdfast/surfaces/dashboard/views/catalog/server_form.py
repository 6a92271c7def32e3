"""Owns the form that says what an MCP server is: read into an entry, and filled from one."""

import json
from dataclasses import replace

from holdfast.core.errors import FieldError, Invalid
from holdfast.features.catalog.manifest import manifest_json, manifest_of
from holdfast.features.catalog.model import NewEntry, ServerManifest, Shape
from holdfast.surfaces.dashboard.shell.fields import lines_of, pairs_of
from holdfast.surfaces.dashboard.shell.view import PageView

SHAPES: tuple[Shape, ...] = ("command", "image", "remote")
_EMPTY = NewEntry(name="", shape="command")


def read_entry(view: PageView, before: NewEntry = _EMPTY) -> NewEntry:
    """The form as an entry; what the form has no field for stays as it was. Invalid names the line that is wrong."""
    shape: Shape = next((each for each in SHAPES if each == view.given("shape")), "command")
    wrong: list[FieldError] = []
    env = pairs_of(view.given("env"), "=", "env", wrong)
    headers = pairs_of(view.given("headers"), ":", "headers", wrong)
    manifest = _manifest(view.given("manifest"), before, wrong) if "manifest" in view.form else before.manifest
    if wrong:
        raise Invalid("The server cannot be saved like this.", fields=wrong)
    return replace(
        before,
        manifest=manifest,
        name=before.name or view.given("name"),
        shape=shape,
        command=view.given("command") or None if shape == "command" else None,
        args=tuple(lines_of(view.given("args"))) if shape != "remote" else (),
        image=view.given("image") or None if shape == "image" else None,
        url=view.given("url") or None if shape == "remote" else None,
        env=env if shape != "remote" else {},
        headers=headers if shape == "remote" else {},
        allow=tuple(view.given("allow").split()) if shape != "remote" else (),
    )


def typed(view: PageView) -> dict[str, str]:
    """The form as somebody left it."""
    fields = ("name", "shape", "command", "args", "image", "url", "env", "headers", "allow", "manifest")
    return {name: view.given(name) for name in fields}


def filled(entry: NewEntry) -> dict[str, str]:
    """The form as it stands for an entry."""
    return {
        "name": entry.name,
        "shape": entry.shape,
        "command": entry.command or "",
        "args": "\n".join(entry.args),
        "image": entry.image or "",
        "url": entry.url or "",
        "env": "\n".join(f"{name}={value}" for name, value in entry.env.items()),
        "headers": "\n".join(f"{name}: {value}" for name, value in entry.headers.items()),
        "allow": "\n".join(entry.allow),
        "manifest": json.dumps(manifest_json(entry.manifest), indent=2, ensure_ascii=False),
    }


def _manifest(text: str, before: NewEntry, wrong: list[FieldError]) -> ServerManifest:
    """What the server expects as somebody wrote it; what they left as it was stays a guess."""
    try:
        return manifest_of(json.loads(text or "{}"))
    except ValueError as problem:
        wrong.append(FieldError("manifest", f"is no JSON: {problem}"))
    except Invalid as problem:
        wrong.extend(problem.fields)
    return before.manifest
