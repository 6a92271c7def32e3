"""What other features bring to intelligence in a server: the project's model, and repositories that hold work up."""

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.memory.model import NewMemory
from holdfast.storage.database import Tx
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.model import KEY, FakeModel, Turn, model, says
from tests.support.clock import MovableClock
from tests.support.world import World, new_world


async def _told(database: SqliteDatabase, clock: MovableClock) -> World:
    world = await new_world(database, clock)
    for text in ("We deploy on Thursdays after lunch", "The lamp turns at dusk because ships pass then"):
        await world.services.memory.save(world.owner, world.start.workspace_id, NewMemory(text))
    return world


async def _connect(world: World, fake: FakeModel) -> None:
    await world.services.secrets.set(world.owner, world.start.workspace_id, "MODEL_KEY", KEY)
    upstream = EndpointUpstream(base_url=fake.url, model="fake-model", key_secret="MODEL_KEY", price_in=2.0)
    await world.services.endpoints.put(world.owner, world.start.project_id, "default", [upstream])


async def test_an_analysis_is_written_by_the_projects_model_and_counted(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    world = await _told(sqlite_database, clock)
    async with model(
        says("Deploys are on Thursdays [2]. The lamp turns at noon [1]. We never deploy on Thursdays [2].")
    ) as fake:
        await _connect(world, fake)
        found = await world.services.intelligence.analyze(world.owner, world.start.workspace_id)
        await world.services.models.close()
    assert found.mode == "model"
    assert found.markdown.startswith("Deploys are on Thursdays [1].\n\n*2 statements were left out: ")
    await world.services.usage.flush()
    logged = await sqlite_database.read(lambda tx: tx.all("SELECT operation, tokens_in FROM usage_log"))
    assert [row["operation"] for row in logged] == ["analyze"] and logged[0]["tokens_in"] > 0


async def test_without_the_model_an_analysis_is_quoted(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    world = await _told(sqlite_database, clock)
    embedded = await world.services.intelligence.analyze(world.owner, world.start.workspace_id)
    async with model() as fake:
        fake.choose = lambda body: Turn(status=500)
        await _connect(world, fake)
        broken = await world.services.intelligence.analyze(world.owner, world.start.workspace_id)
        await world.services.models.close()
    assert (embedded.mode, broken.mode) == ("extractive", "extractive")
    assert embedded.markdown == broken.markdown


async def test_a_repository_that_cannot_be_read_holds_work_up(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    world = await _told(sqlite_database, clock)
    start = world.start

    def fail(tx: Tx) -> None:
        row = {"org": start.organization_id, "ws": start.workspace_id, "now": clock.now()}
        tx.execute(
            "INSERT INTO repository (id, organization_id, workspace_id, slug, name, location, is_local, host, "
            "full_name, branch, state, reason, created_by, created_by_name, created_at, updated_at) VALUES ('repo_1', "
            ":org, :ws, 'lamp', 'Lamp', '/lamp', 1, '', '', '', 'failed', 'The directory is gone.', 'usr_1', 'Ada', "
            ":now, :now)",
            row,
        )

    await sqlite_database.write(fail)
    brief = await world.services.intelligence.brief(world.owner, start.workspace_id)
    (blocker,) = brief.sections["blockers"]
    assert (blocker.type, blocker.id) == ("repository", "lamp") and "The directory is gone." in blocker.detail
