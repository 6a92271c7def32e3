"""Proves endpoints: `default` always there, keys from secrets, addresses guarded, changes audited."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import Conflict, Forbidden, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.features.endpoints.addresses import AddressRules, refused_because
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.identity.service import local_principal
from holdfast.features.secrets.model import SecretNotSet
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.access.credentials import credential
from tests.support.services import Services, build_services, first_start

OLLAMA = EndpointUpstream(base_url="http://127.0.0.1:11434/v1", model="qwen3")
PUBLIC = EndpointUpstream(base_url="https://api.example.com/v1", model="big")


class World:
    """The services, who owns them, and a manager's key that is not the operator's."""

    services: Services
    owner: Principal
    manager: Principal
    project_id: str
    workspace_id: str

    @classmethod
    async def on(cls, database: Database, directory: Path) -> "World":
        world = cls()
        settings = Settings(data_dir=directory, secrets_master_key="ab" * 32, upstream_allow=("models.lan",))
        world.services = build_services(settings, database, SystemClock(), WordEmbedder())
        start = await first_start(world.services)
        world.owner = local_principal(start.organization_id)
        world.manager = replace(world.owner, actor="key_x", proof="key", is_person=False, project_id=start.project_id)
        world.project_id, world.workspace_id = start.project_id, start.workspace_id
        return world


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    return await World.on(database, tmp_path)


async def test_the_default_endpoint_is_always_there_and_embedded(world: World) -> None:
    endpoints = world.services.endpoints

    (listed,) = await endpoints.list(world.manager, world.project_id)
    found = await endpoints.get(world.manager, world.project_id, "default")
    await endpoints.remove(world.manager, world.project_id, "default")

    assert (listed.name, listed.is_embedded, listed.path) == ("default", True, f"/{world.project_id}/default/v1")
    assert found == listed
    with pytest.raises(NotFound):
        await endpoints.get(world.manager, world.project_id, "other")


async def test_upstreams_are_added_replaced_and_removed(world: World) -> None:
    endpoints = world.services.endpoints

    await endpoints.add_upstream(world.owner, world.project_id, "default", OLLAMA)
    await endpoints.add_upstream(world.owner, world.project_id, "default", replace(PUBLIC, priority=1))
    changed = await endpoints.add_upstream(world.owner, world.project_id, "default", replace(OLLAMA, priority=2))
    await endpoints.create(world.owner, world.project_id, "fast", [PUBLIC], frozenset({"code_search"}))

    listed = await endpoints.list(world.owner, world.project_id)
    assert [(each.model, each.priority) for each in changed.upstreams] == [("big", 1), ("qwen3", 2)]
    assert [(each.name, each.is_embedded) for each in listed] == [("default", False), ("fast", False)]
    assert listed[1].disabled_tools == {"code_search"}
    with pytest.raises(Conflict):
        await endpoints.create(world.owner, world.project_id, "fast", [PUBLIC])
    await endpoints.remove(world.owner, world.project_id, "default")
    assert (await endpoints.get(world.owner, world.project_id, "default")).is_embedded
    await endpoints.remove(world.owner, world.project_id, "fast")
    with pytest.raises(NotFound):
        await endpoints.remove(world.owner, world.project_id, "fast")


async def test_what_is_left_out_stays_until_it_is_named_anew(world: World) -> None:
    endpoints = world.services.endpoints

    async def add(spec: EndpointUpstream, **more: Any) -> tuple[list[tuple[str, int]], set[str]]:
        made = await endpoints.add_upstream(world.owner, world.project_id, "default", spec, **more)
        return [(each.model, each.priority) for each in made.upstreams], set(made.disabled_tools)

    assert await add(OLLAMA) == ([("qwen3", 0)], set())
    assert await add(replace(OLLAMA, priority=1), without=frozenset({"code_search"})) == (
        [("qwen3", 1)],
        {"code_search"},
    )
    assert await add(PUBLIC) == ([("qwen3", 1), ("big", 0)], {"code_search"})
    assert await add(PUBLIC, alone=True) == ([("big", 0)], {"code_search"})
    assert await add(PUBLIC, without=frozenset({"web_search"})) == ([("big", 0)], {"web_search"})


async def test_a_key_comes_from_the_workspace_that_has_the_secret(world: World) -> None:
    other = await world.services.workspaces.create(world.owner, world.project_id, "Other")
    await world.services.secrets.set(world.owner, other.id, "MODEL_KEY", "sk-1")

    made = await world.services.endpoints.create(
        world.owner, world.project_id, "keyed", [replace(PUBLIC, key_secret="MODEL_KEY")]
    )
    key = await world.services.database.read(lambda tx: world.services.endpoints.key(tx, made.upstreams[0]))

    assert made.upstreams[0].key_workspace_id == other.id
    assert key == credential("sk-1", PUBLIC.base_url)
    await world.services.secrets.clear(world.owner, other.id, "MODEL_KEY")
    with pytest.raises(SecretNotSet):
        await world.services.database.read(lambda tx: world.services.endpoints.key(tx, made.upstreams[0]))


async def test_a_secret_that_is_not_there_or_not_seen_is_refused(world: World) -> None:
    other = await world.services.workspaces.create(world.owner, world.project_id, "Other")
    await world.services.secrets.set(world.owner, other.id, "MODEL_KEY", "sk-1")
    confined = replace(world.manager, workspace_ids=frozenset({world.workspace_id}))
    keyed = replace(PUBLIC, key_secret="MODEL_KEY")

    for wrong in (replace(keyed, key_secret="OTHER"), replace(keyed, key_workspace_id=world.workspace_id)):
        with pytest.raises(Invalid):
            await world.services.endpoints.create(world.owner, world.project_id, "keyed", [wrong])
    with pytest.raises(Invalid):
        await world.services.endpoints.create(confined, world.project_id, "keyed", [keyed])
    with pytest.raises(NotFound):
        named = replace(keyed, key_workspace_id=other.id)
        await world.services.endpoints.create(confined, world.project_id, "keyed", [named])


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/v1",
        "http://[fe80::1]/v1",
        "http://[::ffff:169.254.169.254]/v1",
        "http://[fd00:ec2::254]/v1",
        "http://metadata.google.internal/v1",
        "http://metadata.google.internal./v1",
        "http://0.0.0.0:11434/v1",
        "http://100.100.100.200/v1",
        "ftp://example.com/v1",
        "http://user:password@example.com/v1",
        "not a url",
    ],
)
async def test_metadata_services_and_odd_addresses_are_refused_to_everyone(world: World, url: str) -> None:
    for who in (world.owner, world.manager):
        with pytest.raises(Invalid) as refused:
            await world.services.endpoints.create(who, world.project_id, "x", [replace(PUBLIC, base_url=url)])
        assert refused.value.fields[0].field == "base_url"
        assert "HOLDFAST_UPSTREAM_ALLOW" not in refused.value.fields[0].message


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:11434/v1", "http://localhost:11434/v1", "http://10.1.2.3/v1", "http://box.local/v1"]
)
async def test_private_machines_are_the_operators_to_name(world: World, url: str) -> None:
    spec = replace(PUBLIC, base_url=url)
    with pytest.raises(Invalid, match="can't be used"):
        await world.services.endpoints.create(world.manager, world.project_id, "x", [spec])

    await world.services.endpoints.create(world.owner, world.project_id, "x", [spec])
    changed = await world.services.endpoints.put(world.manager, world.project_id, "x", [replace(spec, model="other")])

    assert changed.upstreams[0].private
    listed = await world.services.endpoints.create(
        world.manager, world.project_id, "y", [replace(PUBLIC, base_url="http://models.lan/v1")]
    )
    assert listed.upstreams[0].private


@pytest.mark.parametrize(
    ("address", "private", "refused"),
    [
        ("127.0.0.1", True, False),
        ("127.0.0.1", False, True),
        ("::1", True, False),
        ("10.0.0.8", False, True),
        ("fd12::1", True, False),
        ("169.254.169.254", True, True),
        ("::ffff:169.254.169.254", True, True),
        ("fe80::1%eth0", True, True),
        ("93.184.216.34", False, False),
        ("2606:4700::1111", False, False),
    ],
)
def test_an_address_that_a_name_led_to_is_judged_again(address: str, private: bool, refused: bool) -> None:
    assert (refused_because(address, private=private) is not None) is refused


def test_a_public_upstream_is_not_private() -> None:
    assert AddressRules().is_private("https://api.openai.com/v1", operator=False) is False


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-a", "v1", "a" * 64, "a b", "ä"])
async def test_a_name_can_stand_in_a_path(world: World, name: str) -> None:
    with pytest.raises(Invalid):
        await world.services.endpoints.create(world.owner, world.project_id, name, [PUBLIC])


async def test_what_cannot_be_is_refused_by_field(world: World) -> None:
    create = world.services.endpoints.create
    with pytest.raises(Invalid) as many:
        await create(world.owner, world.project_id, "x", [replace(PUBLIC, model=f"m{n}") for n in range(9)])
    with pytest.raises(Invalid) as model:
        await create(world.owner, world.project_id, "x", [replace(PUBLIC, model=" ")])
    with pytest.raises(Invalid) as tool:
        await create(world.owner, world.project_id, "x", [PUBLIC], frozenset({"telepathy"}))
    found = [refused.value.fields[0].field for refused in (many, model, tool)]
    assert found == ["upstreams", "model", "disabled_tools"]


async def test_only_managers_of_the_project_change_endpoints(world: World) -> None:
    reader = replace(world.manager, scopes=frozenset({"read", "inference"}))
    stranger = replace(world.manager, project_id="proj_" + "0" * 32)

    with pytest.raises(Forbidden):
        await world.services.endpoints.create(reader, world.project_id, "x", [PUBLIC])
    with pytest.raises(NotFound):
        await world.services.endpoints.create(stranger, world.project_id, "x", [PUBLIC])
    with pytest.raises(NotFound):
        await world.services.endpoints.list(stranger, world.project_id)
    assert len(await world.services.endpoints.list(reader, world.project_id)) == 1


async def test_each_change_has_a_moment_of_its_own(world: World) -> None:
    moments = [
        (await world.services.endpoints.put(world.owner, world.project_id, "x", [PUBLIC])).updated_at for _ in range(5)
    ]
    assert len(set(moments)) == 5
    page = await world.services.audit.list(world.owner, limit=200)
    actions = [event.action for event in page.items if event.action.startswith("endpoint.")]
    assert sorted(actions) == ["endpoint.create", *["endpoint.update"] * 4]
