"""Owns `holdfast mcp setup`."""

import sys
from pathlib import Path
from typing import Any

import click

from holdfast.core.principal import TIERS
from holdfast.features.client_bundles import folder
from holdfast.features.client_bundles.model import SURFACES, Bundle, SurfaceName, Wanted
from holdfast.features.client_bundles.service import CLIENTS
from holdfast.surfaces.cli.frame import FAILED, Session, command, workspace_option
from holdfast.surfaces.cli.server import told_url

group = click.Group("mcp")


@command(
    group,
    "setup",
    click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT"),
    workspace_option,
    click.option("--tier", type=click.Choice(TIERS), default="all", help="How much of the tool catalog the key sees."),
    click.option(
        "--write",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        help="Merge the files into this folder: your project's root, or the folder of the client's own settings.",
    ),
    click.option("--print", "show", is_flag=True, help="Print the settings file (the default without --write)."),
    click.option("--env", is_flag=True, help="Keep the key out of the file: the client reads it from a variable."),
    click.option("--url", help="The server as the client reaches it (default: where it runs)."),
    click.option(
        "--surface",
        type=click.Choice(list(SURFACES)),
        default="xerotier",
        help="Which MCP endpoint to connect: a workspace's, or keystone for the organization's repositories.",
    ),
    click.option("--label", default="", help="Tells several people's or machines' keys for one client apart."),
    click.option("--yes", is_flag=True, help="Write without asking."),
    help=f"Connect a client: {', '.join(CLIENTS)}. Each run makes a fresh key and stops the one before.",
)
async def setup(session: Session, **asked: Any) -> None:
    surface: SurfaceName = asked["surface"]
    # Keystone is for the whole organization: no workspace need be chosen, but one that is named has to be there.
    is_placed = surface != "keystone" or asked["workspace"] is not None
    wanted = Wanted(
        client=asked["client"],
        workspace_id=await session.workspace(asked["workspace"]) if is_placed else None,
        surface=surface,
        tier=asked["tier"],
        in_environment=asked["env"],
        url=asked["url"] or told_url(),
        label=asked["label"],
    )
    directory: Path | None = asked["directory"]
    if directory is not None:
        await _agree(session, wanted, directory, asked["yes"])
    bundle = await session.services.client_bundles.issue(session.principal, wanted)
    written = folder.write(folder.plan(directory, bundle.files)) if directory is not None else None
    _answer(session, bundle, written, show=asked["show"] or directory is None)


async def _agree(session: Session, wanted: Wanted, directory: Path, yes: bool) -> None:
    """Show what would change before anything does, the key included."""
    draft = await session.services.client_bundles.draft(session.principal, wanted)
    changes = folder.diff(folder.plan(directory, draft.files))
    session.out.note(changes or "Nothing changes but the key.")
    if changes and not yes and _is_asked() and not click.confirm("Write this?", default=True, err=True):
        session.out.note("Nothing was written, and the key is as it was.")
        raise SystemExit(FAILED)


def _is_asked() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


def _answer(session: Session, bundle: Bundle, written: list[str] | None, *, show: bool) -> None:
    files = [{"path": file.path, "content": file.merge("")} for file in bundle.files] if show else []
    value = {
        "client": bundle.client.id,
        "surface": bundle.surface.name,
        "key_name": bundle.key_name,
        "environment": dict(bundle.environment),
        "readme": bundle.readme,
        **({"files": files} if show else {}),
        **({"written": written} if written is not None else {}),
    }
    lines = [files[0]["content"].rstrip("\n")] if show else []
    if not show:
        lines += [f"Wrote {name}" for name in written or []]
        lines += [f"export {name}={secret}" for name, secret in bundle.environment.items()]
    session.out.record(value, lines)
    if not session.out.as_json:
        if show:
            _notes(session, bundle)
        session.out.note(f"\n{bundle.readme}")


def _notes(session: Session, bundle: Bundle) -> None:
    """What belongs to the settings, beside standard output: that stays a file that can be piped."""
    for name, secret in bundle.environment.items():
        session.out.note(f"export {name}={secret}")
    for file in bundle.files[1:]:
        session.out.note(f"\n--- {file.path}\n{file.merge('')}")
