"""Owns connecting clients: a fresh key for one workspace, or for Keystone, and the files that carry it."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.errors import FieldError, Forbidden, Invalid, NotFound
from holdfast.core.principal import Principal, Tier
from holdfast.features.client_bundles.catalog import documented
from holdfast.features.client_bundles.files import jsonc, toml_file, yaml_file
from holdfast.features.client_bundles.files.blocks import block, merge_block, merge_ignored
from holdfast.features.client_bundles.further import further
from holdfast.features.client_bundles.model import (
    KEYSTONE,
    SURFACES,
    ZERO,
    Bundle,
    BundleFile,
    Client,
    ClientConnection,
    McpEndpoint,
    SurfaceName,
    WantedClient,
)
from holdfast.features.client_bundles.readme import readme
from holdfast.features.client_bundles.rules import rules
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.keys.api_keys import MAX_NAME, Keys
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import require_management
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.service import Workspaces

_CLIENTS: Mapping[SurfaceName, Mapping[str, Client]] = {
    name: {client.id: client for client in (*documented(surface), *further(surface))}
    for name, surface in SURFACES.items()
}
CLIENTS = _CLIENTS["xerotier"]
_MCP = "/v1/mcp"


class ClientBundles:
    """Makes bundles. Each one rotates the key that is named after the client and what it is connected to."""

    def __init__(self, keys: Keys, workspaces: Workspaces, endpoints: Endpoints, url: str) -> None:
        """`url` is where clients reach this server, as far as the settings tell."""
        self._keys = keys
        self._workspaces = workspaces
        self._endpoints = endpoints
        self._url = url

    async def draft(self, principal: Principal, wanted: WantedClient) -> Bundle:
        """The bundle as it would be, with a mark in place of the key. Changes nothing."""
        target = await self._checked(principal, wanted)
        return _bundle(target, wanted, target.surface.hidden_key)

    async def issue(self, principal: Principal, wanted: WantedClient) -> Bundle:
        """A bundle with a fresh key; the key of the bundle before stops working."""
        target = await self._checked(principal, wanted)
        minted = await self._keys.rotate(principal, _new_key(target, wanted))
        return _bundle(target, wanted, minted.secret)

    async def _checked(self, principal: Principal, wanted: WantedClient) -> "_Target":
        require_management(principal)
        surface = SURFACES[wanted.surface]
        workspace = None if wanted.workspace_id is None else await self._workspaces.get(principal, wanted.workspace_id)
        client = _CLIENTS[wanted.surface].get(wanted.client)
        if client is None:
            raise NotFound("client", wanted.client)
        if wanted.in_environment and client.variable is None:
            raise _refused("env", f"{client.title} cannot read a key from the environment; leave this out")
        if wanted.router is not None:
            if client.router is None:
                raise _refused("router", f"{client.title} cannot be told its model here; leave this out")
            if surface is KEYSTONE or workspace is None:
                raise _refused("router", "only a key of a workspace may ask models; leave this or the surface out")
            await self._endpoints.get(principal, workspace.project_id, wanted.router)
        base = wanted.url or self._url
        # A key that makes a bundle gives it its own tier and its own end; the rule on handing out holds it to both.
        tier, ends = wanted.tier or principal.tier, principal.expires_at
        if surface is KEYSTONE:
            if principal.project_id is not None:
                raise Forbidden("A Keystone key sees the whole organization; this credential sees one project of it.")
            target = _Target(surface, client, None, _endpoint(base, "/api/mcp", "/api/mcp"), tier, ends)
        elif workspace is None:
            raise _refused("workspace_id", "name the workspace that the client is to work in")
        else:
            path = "/mcp" if surface is ZERO else f"/{workspace.project_id}{_MCP}"
            url = _endpoint(base, path, "/mcp" if surface is ZERO else _MCP)
            target = _Target(surface, client, workspace, url, tier, ends)
        if len(target.key_name(wanted.label)) > MAX_NAME:
            raise _refused("label", "write a shorter one")
        return target


@dataclass(frozen=True, slots=True)
class _Target:
    """What a client is connected to: one workspace, or with none the whole organization."""

    surface: McpEndpoint
    client: Client
    workspace: Workspace | None
    url: str
    tier: Tier
    expires_at: int | None

    def key_name(self, label: str) -> str:
        name = f"keystone:{self.client.id}"
        if self.workspace is not None:
            kind = "zero" if self.surface is ZERO else "mcp"
            name = f"{kind}:{self.client.id}:{self.workspace.slug}"
        return f"{name}:{label.strip()}" if label.strip() else name


def _new_key(target: _Target, wanted: WantedClient) -> NewKey:
    if target.workspace is None:
        # The least tier: elsewhere this key need not do more than read and remember.
        name = target.key_name(wanted.label)
        return NewKey(name=name, kind="organization", tier="core", expires_at=target.expires_at)
    return NewKey(
        name=target.key_name(wanted.label),
        project_id=target.workspace.project_id,
        tier=target.tier,
        workspace_ids=frozenset({target.workspace.id}),
        expires_at=target.expires_at,
    )


def _refused(field: str, problem: str) -> Invalid:
    return Invalid("The bundle cannot be made.", fields=[FieldError(field, problem)])


def archive(bundle: Bundle) -> bytes:
    """The bundle as a ZIP archive, with its README."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in bundle.files:
            _pack(packed, file.path, file.merge(""), 0o600 if file.has_key else 0o644)
        # In a folder of its own, so that unpacking over a project leaves the project's README alone.
        _pack(packed, f"{bundle.surface.name}/README.md", bundle.readme, 0o644)
    return held.getvalue()


def _pack(packed: zipfile.ZipFile, path: str, text: str, mode: int) -> None:
    entry = zipfile.ZipInfo(path)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    packed.writestr(entry, text)


def _bundle(target: _Target, wanted: WantedClient, secret: str) -> Bundle:
    surface, client, in_env = target.surface, target.client, wanted.in_environment
    credential = client.variable if in_env and client.variable else secret
    workspace = target.workspace
    connection = ClientConnection(surface, target.url, workspace.id if workspace else None, credential, in_env)
    text = rules(surface, target.tier)
    files = [BundleFile(client.path, partial(_merge_settings, client, connection, text), has_key=not in_env)]
    if client.rules is not None:
        opening = client.rules.opening
        merge = partial(merge_block, body=text, opening=opening, name=surface.name)
        files.append(BundleFile(client.rules.path, merge))
    secrets = [client.path]
    variables = {surface.variable: secret}
    if wanted.router is not None and client.router is not None:
        url = f"{target.url.removesuffix(_MCP)}/{wanted.router}"
        routed = client.router.settings(url, None if in_env else secret)
        files.append(BundleFile(client.router.path, partial(jsonc.merge, new=routed), has_key=not in_env))
        secrets.append(client.router.path)
        variables[client.router.variable] = secret
    if not in_env and client.is_project_scoped:
        files.append(BundleFile(".gitignore", partial(merge_ignored, paths=secrets)))
    name = target.key_name(wanted.label)
    return Bundle(
        surface,
        client,
        name,
        tuple(files),
        readme(surface, client, workspace.name if workspace else "", name, files, in_env=in_env),
        variables if in_env else {},
    )


def _merge_settings(client: Client, connection: ClientConnection, text: str, before: str) -> str:
    settings: Mapping[str, Any] = client.settings(connection)
    if client.format == "json":
        return jsonc.merge(before, settings)
    if client.format == "yaml":
        return yaml_file.merge(before, settings)
    if client.rules_setting is not None:
        earlier = toml_file.load(before.removeprefix("\ufeff")).get(client.rules_setting, "")
        name = connection.surface.name
        ours = merge_block(earlier, text, name=name) if earlier else block(text, name) + "\n"
        settings = {client.rules_setting: ours, **settings}
    return toml_file.merge(before, settings, client.stale(connection), client.opening)


def _endpoint(url: str, path: str, ending: str) -> str:
    """The MCP endpoint at this path of the server at this URL; a URL with that ending is the endpoint's own."""
    base = url.strip().rstrip("/")
    try:
        parts = urlsplit(base)
        is_url = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        port = parts.port
    except ValueError:
        is_url, port = False, None
    if not is_url:
        raise _refused("url", "give the server's URL, such as https://holdfast.example.com")
    if port == 0:
        raise _refused("url", "the settings do not say which port the server listens on; give its URL")
    return base if base.endswith(ending) else base + path
