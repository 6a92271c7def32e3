"""Owns `holdfast up`."""

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from holdfast.core.settings import Settings, load
from holdfast.storage.files import private_files, tighten
from holdfast.surfaces.cli.frame import ProgramEntry, called, data_dir_option, exits, json_option

_CLIENTS = ("claude-code", "cursor", "opencode", "vscode", "claude-desktop", "codex")


@click.command("up", help="Start the server; the first start makes an organization, a project, a workspace and a key.")
@data_dir_option
@click.option("--host", help="Address to listen on (default: 127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (default: 8787; 0 takes a free one).")
@click.option("--workers", type=int, help="Processes that serve together (default: 1).")
@json_option
@click.pass_context
def up(
    context: click.Context,
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    workers: int | None,
    as_json: bool,
) -> None:
    entry: ProgramEntry = context.find_root().obj
    with exits():
        settings = load(data_dir=data_dir, host=host, port=port, workers=workers)
        directory = settings.data_dir.expanduser()
        for complaint in tighten(directory) if directory.is_dir() else ():
            click.echo(f"holdfast: warning: {complaint}", err=True)
        with private_files():
            entry.serves(settings, lambda ready: _announce(ready, as_json, settings))


def _announce(ready: Any, as_json: bool, settings: Settings) -> None:
    if as_json:
        click.echo(json.dumps(asdict(ready)))
        return
    where = "PostgreSQL" if settings.database_url else str(settings.data_dir.expanduser())
    click.echo(f"Holdfast is ready at {ready.url}  (data: {where})\n")
    click.echo(f"  Sign in (once, within the hour):  {ready.sign_in_url}")
    if ready.api_key:
        click.echo(f"  API key (shown this once):        {ready.api_key}")
    else:
        click.echo("  API key:                          shown once, when it was made; for another:")
        click.echo(f"                                    {called()} keys create --name me")
    click.echo(f"  MCP endpoint:                     {ready.mcp_url}")
    click.echo(f"  Keystone (repositories) endpoint: {ready.keystone_url}\n")
    if ready.api_key:
        click.echo("Connect Claude Code to it with this key:\n")
        click.echo(
            f"  claude mcp add --transport http xerotier {ready.mcp_url} \\\n"
            f'    --header "Authorization: Bearer {ready.api_key}" '
            f'--header "X-Xerotier-Workspace: {ready.workspace_id}"\n'
        )
    click.echo(f"Connect a repository's agent, with rules and a key of its own ({', '.join(_CLIENTS)}, …):\n")
    click.echo(f"  {called()} mcp setup claude-code --write ~/my-repository\n")
    if called() != "holdfast":
        folder = shlex.quote(str(Path(sys.argv[0]).resolve().parent))
        click.echo("To call it plain `holdfast`, as the documentation does:\n")
        click.echo(f'  export PATH="$PATH":{folder}\n')
