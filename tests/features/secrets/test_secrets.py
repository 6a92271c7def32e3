"""Proves secrets: sealed, bound to their row, never shown, and sealed anew under another master key."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.credential import Credential, CredentialMisplaced, Place
from holdfast.core.errors import Conflict, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.master_key import FILE, NEXT_FILE, KeyRing, MasterKey, MasterKeyWrong
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.identity.service import local_principal
from holdfast.features.repositories.model import NewRepository
from holdfast.features.secrets.model import SecretKept, SecretNotSet
from holdfast.storage.database import Database, Tx
from tests.fakes.embedder import WordEmbedder
from tests.support.services import Services, Start, build_services, first_start

VALUE = "lin_api_0123456789abcdef"


class World:
    """The services on one store, with the master key in a directory or in the environment."""

    def __init__(self, database: Database, directory: Path, key: str | None = None) -> None:
        settings = Settings(data_dir=directory, secrets_master_key=key)
        self.database = database
        self.services: Services = build_services(settings, database, SystemClock(), WordEmbedder())
        self.start: Start
        self.owner: Principal

    async def begin(self) -> "World":
        self.start = await first_start(self.services)
        self.owner = local_principal(self.start.organization_id)
        return self

    async def set(self, name: str = "LINEAR_API_KEY", value: str = VALUE) -> None:
        await self.services.secrets.set(self.owner, self.start.workspace_id, name, value)

    async def reveal(self, name: str = "LINEAR_API_KEY") -> str:
        return await self.database.read(
            lambda tx: self.services.secrets.value_to_compare(tx, self.start.workspace_id, name)
        )


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    return await World(database, tmp_path).begin()


@pytest.mark.contract("XA-3")
async def test_a_value_is_kept_sealed_and_its_metadata_shown(world: World, tmp_path: Path) -> None:
    await world.set()

    (found,) = await world.services.secrets.list(world.owner, world.start.workspace_id)
    row = await world.database.read(lambda tx: dict(tx.one("SELECT * FROM secret") or {}))

    assert (found.name, found.is_set, found.updated_by) == ("LINEAR_API_KEY", True, "local")
    assert VALUE not in repr(found)
    assert len(bytes(row["nonce"])) == 12
    assert len(bytes(row["ciphertext"])) == len(VALUE) + 16
    assert VALUE.encode() not in bytes(row["ciphertext"])
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert await world.reveal() == VALUE


async def test_a_replaced_value_has_another_nonce_and_is_audited_without_it(world: World) -> None:
    def nonce(tx: Tx) -> bytes:
        return bytes((tx.one("SELECT nonce FROM secret") or {})["nonce"])

    await world.set()
    first = await world.database.read(nonce)
    await world.set()
    second = await world.database.read(nonce)
    await world.services.secrets.clear(world.owner, world.start.workspace_id, "LINEAR_API_KEY")

    page = await world.services.audit.list(world.owner, limit=200)
    actions = [event.action for event in page.items if event.action.startswith("workspace.secret.")]
    assert first != second
    assert sorted(actions) == ["workspace.secret.cleared", "workspace.secret.replaced", "workspace.secret.set"]
    assert VALUE not in str(page.items)


async def test_a_cleared_secret_keeps_its_name_until_it_is_cleared_again(world: World) -> None:
    secrets, workspace_id = world.services.secrets, world.start.workspace_id
    await world.set()

    await secrets.clear(world.owner, workspace_id, "LINEAR_API_KEY")
    (cleared,) = await secrets.list(world.owner, workspace_id)
    with pytest.raises(SecretNotSet):
        await world.reveal()
    await secrets.clear(world.owner, workspace_id, "LINEAR_API_KEY")

    assert not cleared.is_set
    assert await secrets.list(world.owner, workspace_id) == []
    with pytest.raises(NotFound):
        await secrets.clear(world.owner, workspace_id, "LINEAR_API_KEY")


@pytest.mark.parametrize("name", ["", "lower", "1ST", "A-B", "A" * 65, "A\n", "Ä"])
async def test_a_name_is_capitals_digits_and_underscores(world: World, name: str) -> None:
    with pytest.raises(Invalid):
        await world.set(name)


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 65_537, "\ud800"])
async def test_a_value_is_text_that_an_environment_can_hold(world: World, value: str) -> None:
    with pytest.raises(Invalid) as refused:
        await world.set(value=value)
    assert not value or value not in refused.value.message


async def test_only_who_manages_the_workspace_writes_secrets(world: World) -> None:
    reader = replace(world.owner, is_person=False, proof="key", actor="key_x", scopes=frozenset({"read", "inference"}))

    with pytest.raises(Forbidden):
        await world.services.secrets.set(reader, world.start.workspace_id, "A", "b")
    with pytest.raises(Forbidden):
        await world.services.secrets.clear(reader, world.start.workspace_id, "A")
    with pytest.raises(Forbidden, match="management"):
        await world.services.secrets.list(reader, world.start.workspace_id)


async def test_a_value_moved_to_another_row_does_not_open(world: World) -> None:
    await world.set("MINE", VALUE)
    await world.set("YOURS", "another value")

    def move(tx: Tx) -> None:
        row = tx.one("SELECT nonce, ciphertext FROM secret WHERE name = 'MINE'")
        assert row is not None
        tx.execute("UPDATE secret SET nonce = :nonce, ciphertext = :ciphertext WHERE name = 'YOURS'", dict(row))

    await world.database.write(move)
    with pytest.raises(MasterKeyWrong):
        await world.reveal("YOURS")
    assert await world.reveal("MINE") == VALUE


async def test_a_new_master_key_opens_everything_and_the_old_one_nothing(world: World, tmp_path: Path) -> None:
    await world.set("A", "first")
    await world.set("B", "second")
    old = (tmp_path / FILE).read_text()

    count = await world.services.secrets.change_master_key(world.owner)

    assert count == 2
    assert (tmp_path / FILE).read_text() != old
    assert not (tmp_path / NEXT_FILE).exists()
    assert [await world.reveal("A"), await world.reveal("B")] == ["first", "second"]
    (tmp_path / FILE).write_text(old)
    restarted = await World(world.database, tmp_path).begin()
    with pytest.raises(MasterKeyWrong):
        await restarted.reveal("A")


async def test_a_change_of_the_master_key_that_was_killed_loses_nothing(world: World, tmp_path: Path) -> None:
    """The worst moment: every row is under the new key, and the new key is not in its place yet."""
    await world.set("A", "first")
    old = (tmp_path / FILE).read_text()
    await world.services.secrets.change_master_key(world.owner)
    (tmp_path / FILE).replace(tmp_path / NEXT_FILE)
    (tmp_path / FILE).write_text(old)

    restarted = await World(world.database, tmp_path).begin()
    assert await restarted.reveal("A") == "first"
    await restarted.set("B", "second")
    await restarted.services.secrets.change_master_key(restarted.owner)

    assert not (tmp_path / NEXT_FILE).exists()
    assert [await restarted.reveal("A"), await restarted.reveal("B")] == ["first", "second"]


async def test_a_configured_master_key_is_changed_for_one_that_the_operator_brings(
    database: Database, tmp_path: Path
) -> None:
    world = await World(database, tmp_path, "ab" * 32).begin()
    await world.set()

    with pytest.raises(Conflict):
        await world.services.secrets.change_master_key(world.owner)
    await world.services.secrets.change_master_key(world.owner, "cd" * 32)

    restarted = await World(database, tmp_path, "cd" * 32).begin()
    assert await restarted.reveal() == VALUE
    assert not (tmp_path / FILE).exists()
    with pytest.raises(MasterKeyWrong):
        await world.reveal()


async def test_a_server_with_another_master_key_neither_opens_nor_adds_secrets(
    database: Database, tmp_path: Path
) -> None:
    await (await World(database, tmp_path, "ab" * 32).begin()).set()
    stranger = await World(database, tmp_path, "cd" * 32).begin()

    with pytest.raises(MasterKeyWrong):
        await stranger.reveal()
    with pytest.raises(MasterKeyWrong):
        await stranger.set("B", "second")


def test_two_processes_that_find_no_key_agree_on_one(tmp_path: Path) -> None:
    first, second = KeyRing(tmp_path, None), KeyRing(tmp_path, None)

    assert first.current().id == second.current().id
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE]


def test_a_malformed_master_key_is_refused_without_repeating_it(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError) as refused:
        MasterKey("not hex at all")
    assert "not hex" not in refused.value.message
    (tmp_path / FILE).write_text("garbage")
    with pytest.raises(MasterKeyWrong, match="64 hexadecimal digits"):
        KeyRing(tmp_path, None).current()


def test_a_master_key_is_not_in_its_repr() -> None:
    key = MasterKey("ab" * 32)
    assert "abab" not in repr(key) and "abab" not in json.dumps(repr(key.seal("value", "row")))


async def test_secrets_from_before_are_bound_to_where_they_are_used_at_the_next_start(world: World) -> None:
    """Endpoints and repositories of earlier versions go on working; what nothing uses waits for its first use."""
    services, start, owner = world.services, world.start, world.owner
    for name in ("MODEL_KEY", "FORGE", "IDLE", "IN_CLEAR"):
        await world.set(name)
    upstream = EndpointUpstream(base_url="https://api.model.example/v1", model="m", key_secret="MODEL_KEY")
    await services.endpoints.create(owner, start.project_id, "x", [upstream])
    new = NewRepository("https://github.com/octo/tides.git", key_from="FORGE")
    await services.repositories.add(owner, start.workspace_id, new)

    def as_before(tx: Tx) -> None:
        tx.execute("UPDATE secret SET hosts = NULL")
        row = tx.one("SELECT upstreams FROM endpoint")
        assert row is not None
        clear = {**json.loads(row["upstreams"])[0], "base_url": "http://10.0.0.5/v1", "key_secret": "IN_CLEAR"}
        tx.execute("UPDATE endpoint SET upstreams = :new", {"new": json.dumps([*json.loads(row["upstreams"]), clear])})

    await services.database.write(as_before)
    await first_start(services)

    found = {each.name: each.hosts for each in await services.secrets.list(owner, start.workspace_id)}
    assert found == {
        "MODEL_KEY": ("api.model.example",),
        "FORGE": ("github.com", "api.github.com"),
        "IDLE": (),
        "IN_CLEAR": (),
    }
    place = Place.at("api.model.example", 443, tls=True)
    key = await services.database.read(lambda tx: services.secrets.reveal(tx, start.workspace_id, "MODEL_KEY", place))
    assert key.sent_to(place) == VALUE
    events = (await services.audit.list(owner, limit=200)).items
    assert sum(event.action == "workspace.secret.hosts" for event in events) == 4
    assert await services.secrets.bind_earlier(lambda tx: []) == 0


@pytest.mark.parametrize(
    "place",
    [
        Place.at("evil.example", 443, tls=True),
        Place.at("api.model.example", 8443, tls=True),
        Place.at("api.model.example", 443, tls=False),
        Place.at("api.model.example.evil.example", 443, tls=True),
        Place.at("127.0.0.1", 443, tls=True),
    ],
)
async def test_a_secret_is_revealed_for_its_own_hosts_only(world: World, place: Place) -> None:
    await world.services.secrets.set(world.owner, world.start.workspace_id, "A", VALUE, ["api.model.example"])
    with pytest.raises(SecretKept) as kept:
        await world.database.read(lambda tx: world.services.secrets.reveal(tx, world.start.workspace_id, "A", place))
    assert VALUE not in kept.value.message


def test_a_credential_is_handed_out_for_its_own_place_only() -> None:
    here = Place.at("Api.Example.", 443, tls=True)
    made = Credential(VALUE, here)
    assert made.sent_to(Place.at("api.example", 443, tls=True)) == VALUE
    for other in (
        Place.at("api.example", 443, tls=False),
        Place.at("api.example", 444, tls=True),
        Place.at("x.api.example", 443, tls=True),
    ):
        with pytest.raises(CredentialMisplaced):
            made.sent_to(other)
    assert VALUE not in repr(made) + str(made)


def test_a_place_knows_what_stays_on_this_machine() -> None:
    assert [Place.at(host, 80, tls=False).is_overheard for host in ("localhost", "127.8.9.1", "[::1]", "10.0.0.1")] == [
        False,
        False,
        False,
        True,
    ]
    assert Place.at("localhost.evil.example", 80, tls=False).is_overheard
    assert [Place.at("[::1]", 8443, tls=True).name, Place.at("a.b", 443, tls=True).name] == ["[::1]:8443", "a.b"]
