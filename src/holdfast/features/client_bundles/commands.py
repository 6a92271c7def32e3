"""Owns `holdfast mcp setup`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.commands import FAILED, Argument, Commands, InWorkspace, Option, Session
from holdfast.core.principal import Tier
from holdfast.core.settings import Settings
from holdfast.features.client_bundles.files import folder
from holdfast.features.client_bundles.model import Bundle, SurfaceName, WantedClient
from holdfast.features.client_bundles.service import CLIENTS, ClientBundles
from holdfast.storage.running import told_url

mcp = Commands("mcp", help="Connect coding agents.")


class Setup(InWorkspace):
    """What `setup` is given."""

    client: Annotated[str, Argument("CLIENT", choices=tuple(CLIENTS))]
    tier: Tier = Field("all", description="How much of the tool catalog the key sees.")
    directory: Annotated[Path | None, Option("--write", path="directory")] = Field(
        None,
        description="Merge the files into this folder: your project's root, or that of the client's own settings.",
    )
    show: Annotated[bool, Option("--print")] = Field(
        False, description="Print the settings file (the default without --write); it holds no key."
    )
    new_key: bool = Field(
        False, description="Print it with a fresh key, which stops the one before; --write makes one anyway."
    )
    env: bool = Field(False, description="Keep the key out of the file: the client reads it from a variable.")
    url: str | None = Field(None, description="The server as the client reaches it (default: where it runs).")
    surface: SurfaceName = Field(
        "xerotier",
        description="Which MCP endpoint to connect: a workspace's, keystone for the organization's repositories, "
        "or zero for work items.",
    )
    router: bool = Field(False, description="Also make an endpoint the client's model (claude-code).")
    endpoint: Annotated[str, Option(metavar="NAME")] = Field("default", description="Which endpoint that is.")
    label: str = Field("", description="Tells several people's or machines' keys for one client apart.")
    yes: bool = Field(False, description="Write without asking.")

    async def wanted(self, session: Session, settings: Settings) -> WantedClient:
        """The same for the service."""
        # Keystone is for the whole organization: no workspace need be chosen, but one that is named has to be there.
        is_placed = self.surface != "keystone" or self.workspace is not None
        return WantedClient(
            client=self.client,
            workspace_id=await session.workspace(self.workspace) if is_placed else None,
            surface=self.surface,
            tier=self.tier,
            in_environment=self.env,
            url=self.url or told_url(settings),
            label=self.label,
            router=self.endpoint if self.router else None,
        )


@mcp.command(
    "setup",
    help=f"Connect a client: {', '.join(CLIENTS)}. "
    "With --write or --new-key each run makes a fresh key and stops the one before.",
)
async def setup(session: Session, bundles: ClientBundles, settings: Settings, given: Setup) -> None:
    wanted = await given.wanted(session, settings)
    if given.directory is not None and not await _agrees(session, bundles, wanted, given.directory, given.yes):
        session.out.note("Nothing was written, and the key is as it was.")
        raise SystemExit(FAILED)
    makes_key = given.new_key or given.directory is not None
    make = bundles.issue if makes_key else bundles.draft
    bundle = await make(session.principal, wanted)
    written = None if given.directory is None else folder.write(folder.plan(given.directory, bundle.files))
    _answer(session, bundle, written, show=given.show or given.directory is None, has_key=makes_key)


async def _agrees(session: Session, bundles: ClientBundles, wanted: WantedClient, directory: Path, yes: bool) -> bool:
    """Show what would change before anything does, the key included."""
    draft = await bundles.draft(session.principal, wanted)
    changes = folder.diff(folder.plan(directory, draft.files))
    session.out.note(changes or "Nothing changes but the key.")
    return yes or not changes or session.out.confirm("Write this?", default=True)


def _answer(session: Session, bundle: Bundle, written: list[str] | None, *, show: bool, has_key: bool) -> None:
    files = [{"path": file.path, "content": file.merge("")} for file in bundle.files] if show else []
    value = {
        "client": bundle.client.id,
        "surface": bundle.surface.name,
        "key_name": bundle.key_name,
        "key_made": has_key,
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
        if not has_key:
            session.out.note(
                f"No key was made: write one of yours where it says {bundle.surface.hidden_key}, or run this with "
                "--new-key, or with --write DIR."
            )


def _notes(session: Session, bundle: Bundle) -> None:
    """What belongs to the settings, beside standard output: that stays a file that can be piped."""
    for name, secret in bundle.environment.items():
        session.out.note(f"export {name}={secret}")
    for file in bundle.files[1:]:
        session.out.note(f"\n--- {file.path}\n{file.merge('')}")
