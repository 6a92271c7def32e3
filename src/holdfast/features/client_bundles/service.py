"""Owns connecting clients: a fresh key for one workspace and the files that carry it."""

import io
import zipfile
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.features.client_bundles import jsonc, toml_file, yaml_file
from holdfast.features.client_bundles.blocks import block, merge_block, merge_ignored
from holdfast.features.client_bundles.catalog import DOCUMENTED
from holdfast.features.client_bundles.folder import HIDDEN_KEY
from holdfast.features.client_bundles.further import FURTHER
from holdfast.features.client_bundles.model import VARIABLE, Bundle, BundleFile, Client, Connection, Wanted
from holdfast.features.client_bundles.readme import readme
from holdfast.features.client_bundles.rules import rules
from holdfast.features.identity.keys import MAX_NAME, Keys
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import require_management
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.service import Workspaces

CLIENTS: Mapping[str, Client] = {client.id: client for client in (*DOCUMENTED, *FURTHER)}
_README = "xerotier/README.md"
"""In a folder of its own, so that unpacking over a project leaves the project's README alone."""


class ClientBundles:
    """Makes bundles. Each one rotates the key that is named after the client and the workspace."""

    def __init__(self, keys: Keys, workspaces: Workspaces, url: str) -> None:
        """`url` is where clients reach this server, as far as the settings tell."""
        self._keys = keys
        self._workspaces = workspaces
        self._url = url

    async def draft(self, principal: Principal, wanted: Wanted) -> Bundle:
        """The bundle as it would be, with a mark in place of the key. Changes nothing."""
        client, workspace, url = await self._checked(principal, wanted)
        return _bundle(client, workspace, url, wanted, HIDDEN_KEY)

    async def issue(self, principal: Principal, wanted: Wanted) -> Bundle:
        """A bundle with a fresh key; the key of the bundle before stops working."""
        client, workspace, url = await self._checked(principal, wanted)
        new = NewKey(
            name=_key_name(client, workspace, wanted.label),
            project_id=workspace.project_id,
            tier=wanted.tier,
            workspace_ids=frozenset({workspace.id}),
        )
        minted = await self._keys.rotate(principal, new)
        return _bundle(client, workspace, url, wanted, minted.secret)

    async def _checked(self, principal: Principal, wanted: Wanted) -> tuple[Client, Workspace, str]:
        require_management(principal)
        workspace = await self._workspaces.get(principal, wanted.workspace_id)
        client = CLIENTS.get(wanted.client)
        if client is None:
            raise NotFound("client", wanted.client)
        if wanted.in_environment and client.variable is None:
            problem = f"{client.title} cannot read a key from the environment; leave this out"
            raise Invalid("The bundle cannot be made.", fields=[FieldError("env", problem)])
        if len(_key_name(client, workspace, wanted.label)) > MAX_NAME:
            raise Invalid("The bundle cannot be made.", fields=[FieldError("label", "write a shorter one")])
        return client, workspace, _endpoint(wanted.url or self._url, workspace.project_id)


def archive(bundle: Bundle) -> bytes:
    """The bundle as a ZIP archive, with its README."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in bundle.files:
            _pack(packed, file.path, file.merge(""), 0o600 if file.has_key else 0o644)
        _pack(packed, _README, bundle.readme, 0o644)
    return held.getvalue()


def _pack(packed: zipfile.ZipFile, path: str, text: str, mode: int) -> None:
    entry = zipfile.ZipInfo(path)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    packed.writestr(entry, text)


def _bundle(client: Client, workspace: Workspace, url: str, wanted: Wanted, secret: str) -> Bundle:
    in_env = wanted.in_environment
    credential = client.variable if in_env and client.variable else secret
    connection = Connection(url, workspace.id, credential, in_env)
    text = rules(wanted.tier)
    files = [BundleFile(client.path, partial(_merge_settings, client, connection, text), has_key=not in_env)]
    if client.rules is not None:
        opening = client.rules.opening
        files.append(BundleFile(client.rules.path, partial(merge_block, body=text, opening=opening)))
    if not in_env and client.is_project_scoped:
        files.append(BundleFile(".gitignore", partial(merge_ignored, paths=[client.path])))
    name = _key_name(client, workspace, wanted.label)
    return Bundle(
        client,
        name,
        tuple(files),
        readme(client, workspace.name, name, files, in_env=in_env),
        {VARIABLE: secret} if in_env else {},
    )


def _merge_settings(client: Client, connection: Connection, text: str, before: str) -> str:
    settings: Mapping[str, Any] = client.settings(connection)
    if client.format == "json":
        return jsonc.merge(before, settings)
    if client.format == "yaml":
        return yaml_file.merge(before, settings)
    if client.rules_setting is not None:
        earlier = toml_file.load(before.removeprefix("\ufeff")).get(client.rules_setting, "")
        settings = {client.rules_setting: merge_block(earlier, text) if earlier else block(text) + "\n", **settings}
    return toml_file.merge(before, settings, client.stale(connection), client.opening)


def _key_name(client: Client, workspace: Workspace, label: str) -> str:
    name = f"mcp:{client.id}:{workspace.slug}"
    return f"{name}:{label.strip()}" if label.strip() else name


def _endpoint(url: str, project_id: str) -> str:
    """The MCP endpoint of a project on the server at this URL."""
    base = url.strip().rstrip("/")
    try:
        parts = urlsplit(base)
        is_url = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        port = parts.port
    except ValueError:
        is_url, port = False, None
    if not is_url:
        problem = "give the server's URL, such as https://holdfast.example.com"
        raise Invalid("The bundle cannot be made.", fields=[FieldError("url", problem)])
    if port == 0:
        problem = "the settings do not say which port the server listens on; give its URL"
        raise Invalid("The bundle cannot be made.", fields=[FieldError("url", problem)])
    return base if base.endswith("/v1/mcp") else f"{base}/{project_id}/v1/mcp"
