"""Owns the import of snippets: every server an entry, every credential a secret that the entry refers to."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.features.catalog.model import CatalogEntry
from holdfast.features.catalog.servers.addresses import referring
from holdfast.features.catalog.servers.remote_clients import KeepClient
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.snippets.reading import PastedServer, read_snippet
from holdfast.features.secrets import store as secret_store
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database, Tx


@dataclass(frozen=True, slots=True)
class MadeReference:
    """A secret that an import made, or that somebody still has to set."""

    name: str
    server: str
    variable: str
    is_set: bool


@dataclass(frozen=True, slots=True)
class MissingValue:
    """A variable or header that is no secret, for which the snippet had a placeholder."""

    server: str
    variable: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import made."""

    servers: Sequence[CatalogEntry]
    secrets: Sequence[MadeReference]
    values: Sequence[MissingValue] = ()


class SnippetImport:
    """Imports a snippet whole, or nothing of it."""

    def __init__(self, database: Database, catalog: ServerCatalog, secrets: Secrets) -> None:
        self._database = database
        self._catalog = catalog
        self._secrets = secrets

    async def run(self, principal: Principal, named: str, snippet: Mapping[str, Any]) -> Imported:
        """Register in the named workspace what a snippet names.

        An entry whose credential is a placeholder stays switched off until somebody gives it.
        """
        pasted = read_snippet(snippet)
        key = await self._secrets.sealing_key()
        found = [await self._looked(principal, named, each) for each in pasted]

        def work(tx: Tx) -> Imported:
            workspace_id = self._catalog.workspace(tx, principal, named)
            servers: list[CatalogEntry] = []
            made: list[MadeReference] = []
            values: list[MissingValue] = []
            for each, keep in zip(pasted, found, strict=True):
                references: dict[str, str] = {}
                for variable, value in each.credentials.items():
                    name = _free_name(tx, workspace_id, each.entry.name, variable)
                    self._secrets.put(tx, principal, workspace_id, name, value, sealed_by=key)
                    references[variable] = "${" + name + "}"
                    made.append(MadeReference(name, each.entry.name, variable, True))
                open = [name for name in each.missing if _is_plain_value(each, name)]
                values += [MissingValue(each.entry.name, name) for name in open]
                secret = [name for name in each.missing if name not in open]
                made += [MadeReference(_plain(name), each.entry.name, name, False) for name in secret]
                with _placed(each):
                    entry = self._catalog.add(tx, principal, workspace_id, _referring(each, references).entry, keep)
                servers.append(entry)
            return Imported(servers, made, values)

        return await self._database.write(work)

    async def _looked(self, principal: Principal, named: str, pasted: PastedServer) -> KeepClient | None:
        """What is found out about a remote server, unless it brings a credential, or lacks the one it names."""
        if pasted.entry.shape != "remote" or pasted.credentials or pasted.missing:
            return None
        with _placed(pasted):
            return await self._catalog.looked(principal, named, pasted.entry)


@contextmanager
def _placed(pasted: PastedServer) -> Iterator[None]:
    """What is wrong with one server of many says which."""
    try:
        yield
    except Invalid as refused:
        if not pasted.where:
            raise
        fields = [FieldError(f"{pasted.where}.{each.field}", each.message) for each in refused.fields]
        raise Invalid("The snippet cannot be imported.", fields=fields) from None


def _is_plain_value(pasted: PastedServer, name: str) -> bool:
    rule = pasted.entry.manifest.env.get(name)
    return rule is not None and rule.kind == "value"


def _referring(pasted: PastedServer, references: Mapping[str, str]) -> PastedServer:
    entry = pasted.entry
    if entry.shape == "remote":
        headers = {name: reference for name, reference in references.items() if not name.startswith("?")}
        query = {name[1:]: reference for name, reference in references.items() if name.startswith("?")}
        url = referring(entry.url or "", query)
        return replace(pasted, entry=replace(entry, headers={**entry.headers, **headers}, url=url))
    return replace(pasted, entry=replace(entry, env={**entry.env, **references}))


def _free_name(tx: Tx, workspace_id: str, server: str, variable: str) -> str:
    """The variable's own name, or one with the server's before it: another server's secret stays as it is."""
    plain = _plain(variable)
    wanted = [plain, _plain(f"{server}_{variable}")]
    wanted += [f"{wanted[1][:60]}_{number}" for number in range(2, 100)]
    return next(name for name in wanted if secret_store.find(tx, workspace_id, name) is None)


def _plain(name: str) -> str:
    plain = re.sub(r"[^A-Z0-9_]+", "_", name.upper()).strip("_") or "SECRET"
    return (plain if not plain[0].isdigit() else f"_{plain}")[:64]
