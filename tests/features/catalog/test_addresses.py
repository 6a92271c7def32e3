"""Credentials that stand in a remote server's address: a secret and a reference, wherever the address is seen."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.errors import Invalid
from holdfast.core.settings import Settings
from holdfast.features.catalog.model import CatalogEntry, NewEntry
from holdfast.features.catalog.servers.addresses import filled, references_in
from holdfast.features.catalog.servers.connections import ServerStarts
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.snippets.importing import SnippetImport
from holdfast.features.identity.service import local_principal
from holdfast.features.secrets.references import ReferenceBroken
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.fakes.mcp.inside import InsideServers
from tests.support.clock import MovableClock
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, background, build_services, first_start

KEY = "tvly-dev-AbC+dEf&GhI/jKl"
WRITTEN = "tvly-dev-AbC%2BdEf%26GhI%2FjKl"
AT = "https://mcp.tavily.com/mcp/"


class Shelf:
    def __init__(self, services: Services, organization_id: str, workspace: str) -> None:
        self.services, self.owner, self.workspace = services, local_principal(organization_id), workspace

    async def paste(self, url: str) -> tuple[CatalogEntry, set[tuple[str, bool]]]:
        imports = self.services[SnippetImport]
        made = await imports.run(self.owner, self.workspace, {"mcpServers": {"tavily": {"url": url}}})
        return made.servers[0], {(each.name, each.is_set) for each in made.secrets}

    async def register(self, url: str) -> CatalogEntry:
        return await self.services[ServerCatalog].register(
            self.owner, self.workspace, NewEntry(name="tavily", shape="remote", url=url)
        )


@pytest.fixture
async def shelf(database: Database, clock: MovableClock) -> AsyncIterator[Shelf]:
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    services = build_services(settings, database, clock, WordEmbedder(), instead=InsideServers().instead())
    async with background(services):
        start = await first_start(services)
        yield Shelf(services, start.organization_id, start.workspace_id)


@pytest.mark.contract("XA-2")
async def test_a_pasted_credential_in_an_address_becomes_a_secret_and_reaches_the_server_alone(shelf: Shelf) -> None:
    entry, secrets = await shelf.paste(f"{AT}?tavilyApiKey={WRITTEN}&profile=a")
    assert entry.spec.url == f"{AT}?tavilyApiKey=${{TAVILYAPIKEY}}&profile=a" and secrets == {("TAVILYAPIKEY", True)}
    start = await shelf.services[ServerStarts].of(shelf.owner, entry.id)
    assert start.url == f"{AT}?tavilyApiKey={WRITTEN}&profile=a" and start.secrets == {KEY}
    assert "tvly" not in repr(start) + repr(entry)
    bound = next(each for each in await shelf.services[Secrets].list(shelf.owner, shelf.workspace))
    assert list(bound.hosts) == ["mcp.tavily.com"]


async def test_a_placeholder_in_an_address_leaves_the_server_off_until_somebody_has_the_key(shelf: Shelf) -> None:
    entry, secrets = await shelf.paste(f"{AT}?tavilyApiKey=<your-api-key>&profile=a")
    assert not entry.spec.enabled and secrets == {("TAVILYAPIKEY", False)}
    assert entry.spec.url == f"{AT}?profile=a"


@pytest.mark.contract("XA-4")
async def test_a_credential_in_a_registered_address_is_refused_and_a_reference_is_checked(shelf: Shelf) -> None:
    for url, problem in (
        (f"{AT}?tavilyApiKey={WRITTEN}", "${SECRET}"),
        (f"{AT}?tavilyApiKey=${{NOT_SET}}", "NOT_SET"),
        (f"{AT}?tavilyApiKey=a${{MIXED}}", "alone"),
        ("https://example.com/${PATH}/mcp", "query"),
    ):
        with pytest.raises(Invalid) as refused:
            await shelf.register(url)
        assert [each.field.partition(".")[0] for each in refused.value.fields] == ["url"]
        assert problem in refused.value.fields[0].message
    await shelf.services[Secrets].set(shelf.owner, shelf.workspace, "KEY", KEY)
    entry = await shelf.register(f"{AT}?tavilyApiKey=${{KEY}}")
    await shelf.services[Secrets].clear(shelf.owner, shelf.workspace, "KEY")
    with pytest.raises(ReferenceBroken, match=r"url\.tavilyApiKey"):
        await shelf.services[ServerStarts].of(shelf.owner, entry.id)


def test_only_whole_values_of_the_query_are_references() -> None:
    assert references_in(f"{AT}?a=${{A}}&b=x%20y&c=&d&e=$%7BB%7D#end=${{C}}") == {"a": "${A}", "e": "${B}"}
    assert filled(f"{AT}?a=${{A}}&b=x%20y&c=&d", {"a": "1 2"}) == f"{AT}?a=1%202&b=x%20y&c=&d"
    assert filled(AT, {}) == AT
