"""Owns the proof that a query finds what it names exactly and first, then what it is about, and only the caller's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from holdfast.core.principal import Principal
from holdfast.engines.git.model import Commit, File, FileChange, FilePassage, Symbol, Tag
from holdfast.engines.search import Entry
from holdfast.features.memory.model import NewMemory
from holdfast.features.repositories import store
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.entries import commit_entry, file_entries, tag_entry
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.hosts.item_entries import item_entries
from holdfast.features.repositories.model import Item, Match, Repository, RepositoryNotFound
from holdfast.storage.database import Database, Tx
from tests.support.clock import MovableClock
from tests.support.world import World, new_world

NOW = 1_795_000_000_000
DAY = 86_400_000


class Kept:
    """A repository that is written as a sync writes it."""

    def __init__(self, world: World, database: Database, slug: str, workspace_id: str) -> None:
        self.world, self.database = world, database
        self.repository = _repository(world, slug, workspace_id)

    async def begin(self) -> "Kept":
        await self.database.write(lambda tx: store.insert(tx, self.repository))
        return self

    async def file(self, path: str, *passages: str, symbols: Sequence[Symbol] = (), kind: str = "code") -> None:
        parts = tuple(FilePassage(text, "", 1 + 10 * n, 10 + 10 * n) for n, text in enumerate(passages))
        made = File(path, "b" * 40, kind, 100, "python", 10 * len(parts), parts, tuple(symbols))  # type: ignore[arg-type]

        def work(tx: Tx) -> None:
            history_store.put_files(tx, self.repository.id, [made])
            self._put(tx, list(file_entries(self.repository, made, NOW)))

        await self.database.write(work)

    async def commit(
        self, sha: str, subject: str, *paths: str, body: str = "", days_ago: int = 1, renames: Mapping[str, str] = {}
    ) -> None:
        moment = NOW - days_ago * DAY
        changes = tuple(FileChange("M", path) for path in paths)
        changes += tuple(FileChange("R", new, old) for old, new in renames.items())
        made = Commit(sha, (), "Ana Ruiz", "ana@example.org", moment, moment, subject, body, changes)

        def work(tx: Tx) -> None:
            history_store.put_commits(tx, self.repository.id, [made])
            self._put(tx, [commit_entry(self.repository, made, NOW)])

        await self.database.write(work)

    async def item(self, kind: str, number: str, title: str, body: str = "", files: Sequence[str] = ()) -> None:
        made = Item(
            kind=kind,  # type: ignore[arg-type]
            number=number,
            title=title,
            body=body,
            state="open",
            author="bo",
            url=f"https://example.org/{kind}/{number}",
            created_at=NOW - DAY,
            updated_at=NOW - DAY,
            files=tuple(files),
        )

        def work(tx: Tx) -> None:
            item_store.put_items(tx, self.repository.id, [made])
            self._put(tx, list(item_entries(self.repository, made, NOW)))

        await self.database.write(work)

    async def tag(self, name: str) -> None:
        made = Tag(name, "c" * 40, NOW - DAY, "")

        def work(tx: Tx) -> None:
            history_store.put_tags(tx, self.repository.id, [made])
            self._put(tx, [tag_entry(self.repository, made, NOW)])

        await self.database.write(work)

    def _put(self, tx: Tx, entries: list[Entry]) -> None:
        self.world.services.search.put(tx, entries)


def _repository(world: World, slug: str, workspace_id: str) -> Repository:
    return Repository(
        id=f"repo_{slug}",
        organization_id=world.start.organization_id,
        project_id="",
        workspace_id=workspace_id,
        slug=slug,
        name=slug,
        location=f"/srv/{slug}",
        is_local=True,
        state="ready",
        ingested=True,
        last_synced_at=NOW,
        created_by="system",
        created_by_name="system",
        created_at=NOW,
        updated_at=NOW,
    )


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> World:
    clock.millis = NOW
    return await new_world(database, clock)


@pytest.fixture
def finding(world: World, database: Database) -> RepositoryFinding:
    return RepositoryFinding(database, world.services.search, world.services.repositories, world.clock)


@pytest.fixture
async def api(world: World, database: Database) -> Kept:
    kept = await Kept(world, database, "api", world.start.workspace_id).begin()
    await kept.file(
        "src/net/address.py",
        "from urllib.parse import urlsplit\n\nKNOWN = ('https', 'ssh')",
        "def parse_location(text):\n    return Location(urlsplit(text))",
        "class GitReader:\n    def fetch(self):\n        ...",
        symbols=[
            Symbol("parse_location", "function", 11, 14),
            Symbol("GitReader", "class", 21, 29),
            Symbol("fetch", "method", 23, 25, "GitReader"),
        ],
    )
    await kept.file(
        "tests/net/test_address.py",
        "def parse_location(fake): pass\ndef test_parse(): assert parse_location('x')",
        symbols=[Symbol("parse_location", "function", 1, 1), Symbol("test_parse", "function", 2, 2)],
    )
    await kept.file(
        "src/store/fetch.py",
        "def fetch(rows): return list(rows)",
        symbols=[Symbol("fetch", "function", 1, 1)],
    )
    await kept.file("Makefile", "test:\n\tpytest", kind="text")
    await kept.file("README.md", "# Api\n\nAnswers calls.", kind="text")
    await kept.file("tests/readme.py", "README = 1", symbols=[Symbol("README", "constant", 1, 1)])
    await kept.file("logo.png", kind="binary")
    await kept.commit("a1b2c3d4" + "0" * 32, "Refuse credentials in a location", "src/net/address.py")
    await kept.commit(
        "b1b2c3d4" + "0" * 32, "Read rows in batches", "src/store/fetch.py", body="Memory grew without end."
    )
    await kept.item("issue", "12", "Clone hangs on slow servers", "It waits for ever.")
    await kept.item("pull_request", "12", "Bound the time of a clone", "Fixes the hang.", ["src/net/address.py"])
    await kept.item("pull_request", "31", "Speed up the store", "Batches.")
    await kept.item("release", "v1.2.0", "The quick one", "Faster store.")
    await kept.tag("v1.2.0")
    return kept


async def _search(finding: RepositoryFinding, world: World, query: str, **more: object) -> list[Match]:
    return await finding.search(world.owner, ["api"], query, **more)  # type: ignore[arg-type]


@pytest.mark.contract("KS-4")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("parse_location", "file:src/net/address.py#L11-L20"),
        ("parseLocation", "file:src/net/address.py#L11-L20"),
        ("where is ParseLocation defined?", "file:src/net/address.py#L11-L20"),
        ("what calls parse_location when a URL has a port", "file:src/net/address.py#L11-L20"),
        ("GitReader.fetch", "file:src/net/address.py#L21-L30"),
        ("`fetch`", "file:src/store/fetch.py#L1-L10"),
        ("class GitReader", "file:src/net/address.py#L21-L30"),
        ("git reader", "file:src/net/address.py#L21-L30"),
        ("src/net/address.py", "file:src/net/address.py#L1-L10"),
        ("net/address.py:25", "file:src/net/address.py#L21-L30"),
        ("what is in address.py?", "file:src/net/address.py#L1-L10"),
        ("Makefile", "file:Makefile#L1-L10"),
        ("logo.png", "file:logo.png"),
        ("README", "file:README.md#L1-L10"),
        ("what is in README?", "file:README.md#L1-L10"),
        ("address", "file:src/net/address.py#L1-L10"),
        ("net/address", "file:src/net/address.py#L1-L10"),
        ("net.address", "file:src/net/address.py#L1-L10"),
        ("net.address.parse_location", "file:src/net/address.py#L11-L20"),
        ("src/net", "file:src/net/address.py#L1-L10"),
        ("/srv/api/src/net/address.py", "file:src/net/address.py#L1-L10"),
        ("https://github.com/o/r/blob/main/src/net/address.py#L25", "file:src/net/address.py#L21-L30"),
        ("a1b2c3d", "commit:a1b2c3d4" + "0" * 32),
        ("why was A1B2C3D4 made, and the store", "commit:a1b2c3d4" + "0" * 32),
        ("#31", "pr:31"),
        ("issue 12", "issue:12"),
        ("PR 12", "pr:12"),
        ("!12", "pr:12"),
        ("what did pull request #31 speed up", "pr:31"),
        ("https://example.org/o/r/pull/12", "pr:12"),
        ("v1.2.0", "release:v1.2.0"),
        ("what changed in 1.2.0", "release:v1.2.0"),
    ],
)
async def test_what_a_query_names_comes_first(
    finding: RepositoryFinding, world: World, api: Kept, query: str, expected: str
) -> None:
    found = await _search(finding, world, query)

    assert found[0].source_id == expected
    assert found[0].exact
    assert found[0].similarity >= 0.9
    assert [match.similarity for match in found] == sorted((match.similarity for match in found), reverse=True)
    assert len({match.source_id for match in found}) == len(found)


async def test_a_query_that_is_nothing_but_the_name_has_similarity_one(
    finding: RepositoryFinding, world: World, api: Kept
) -> None:
    found = await _search(finding, world, "parse_location()")

    assert [(match.path, match.similarity) for match in found[:2]] == [
        ("src/net/address.py", 1.0),
        ("tests/net/test_address.py", 1.0),
    ]
    assert found[0].facts == {"symbol": "parse_location", "kind": "function", "line": 11}


async def test_a_tag_is_found_beside_its_release(finding: RepositoryFinding, world: World, api: Kept) -> None:
    assert [match.source_id for match in await _search(finding, world, "v1.2.0")][:2] == [
        "release:v1.2.0",
        "tag:v1.2.0",
    ]


@pytest.mark.parametrize("query", ["", "   ", "ffffffff", "#999", "no/such/file.py", "`", "()", "\0", "#", "v9.9.9"])
async def test_a_name_of_nothing_is_no_exact_match(
    finding: RepositoryFinding, world: World, api: Kept, query: str
) -> None:
    assert not any(match.exact for match in await _search(finding, world, query))


async def test_what_a_query_is_about_is_found_with_its_provenance(
    finding: RepositoryFinding, world: World, api: Kept
) -> None:
    found = await _search(finding, world, "memory grew while reading rows in batches")

    best = found[0]
    assert (best.type, best.commit, best.author) == ("commit", "b1b2c3d4" + "0" * 32, "Ana Ruiz")
    assert best.content.startswith("Read rows in batches\n\nMemory grew without end.")
    assert best.occurred_at == NOW - DAY
    assert not best.exact and best.repository.slug == "api"
    assert all(match.similarity >= 0.3 for match in found)


async def test_types_and_the_least_similarity_narrow(finding: RepositoryFinding, world: World, api: Kept) -> None:
    text = "clone hangs on slow servers"

    everything = await _search(finding, world, text, least=0.0, limit=50)
    issues = await _search(finding, world, text, types=frozenset({"issue"}))
    assert {match.type for match in everything} == {"issue", "pull_request"}
    assert [match.source_id for match in issues] == ["issue:12"]
    assert await _search(finding, world, "PR 12", types=frozenset({"tag"}), least=0.9) == []
    assert len(await _search(finding, world, text, least=0.0, limit=2)) == 2


async def test_no_file_takes_more_than_three_places(finding: RepositoryFinding, world: World, api: Kept) -> None:
    await api.file("docs/long.md", *(f"heron number {number} of the lake" for number in range(9)), kind="text")

    found = await _search(finding, world, "heron of the lake")

    assert [match.path for match in found].count("docs/long.md") == 3


async def test_copies_of_a_text_are_shown_once(finding: RepositoryFinding, world: World, api: Kept) -> None:
    for path in ("vendor/a/heron.md", "vendor/b/heron.md"):
        await api.file(path, "the heron stands in the lake", kind="text")

    found = await _search(finding, world, "heron stands in the lake")

    assert len([match for match in found if "heron" in match.path]) == 1


async def test_repositories_of_several_workspaces_are_searched_together(
    finding: RepositoryFinding, world: World, database: Database, api: Kept
) -> None:
    other = await world.services.workspaces.create(world.owner, world.start.project_id, "Other")
    web = await Kept(world, database, "web", other.id).begin()
    await web.commit("c" * 40, "Show the memory of rows in batches", "app.ts")
    unasked = await Kept(world, database, "unasked", other.id).begin()
    await unasked.commit("d" * 40, "Read rows in batches", "x.py")

    found = await finding.search(world.owner, ["api", "web"], "rows in batches")

    assert {match.repository.slug for match in found} == {"api", "web"}
    assert found[0].commit == "b1b2c3d4" + "0" * 32


async def test_a_repository_that_is_not_the_callers_is_not_found(
    finding: RepositoryFinding, world: World, api: Kept
) -> None:
    narrow: Principal = replace(world.owner, workspace_ids=frozenset({"ws_other"}))

    for caller, slugs in ((world.owner, ["api", "ghost"]), (narrow, ["api"])):
        with pytest.raises(RepositoryNotFound):
            await finding.search(caller, slugs, "rows")
        with pytest.raises(RepositoryNotFound):
            await finding.files(caller, slugs, "rows")


async def _files(finding: RepositoryFinding, world: World, query: str, **more: int) -> list[str]:
    return [file.path for file in await finding.files(world.owner, ["api"], query, **more)]


async def test_files_are_found_by_what_alike_work_changed(finding: RepositoryFinding, world: World, api: Kept) -> None:
    await api.file("src/quiet.py", "nothing that speaks of it", "more of that")
    await api.commit("e" * 40, "Bound how long a heron may wait", "src/quiet.py", days_ago=9)

    found = await finding.files(world.owner, ["api"], "let the heron wait longer")

    assert found[0].path == "src/quiet.py"
    assert found[0].reasons[0] == "past" and found[0].past == ("e" * 40,)
    assert 0 < found[0].score <= 1


async def test_files_are_found_by_their_own_words_and_by_name(
    finding: RepositoryFinding, world: World, api: Kept
) -> None:
    await api.file("src/heron.py", "def stand(lake): return 'the heron stands'")

    assert (await _files(finding, world, "the heron stands in the lake"))[0] == "src/heron.py"
    assert (await _files(finding, world, "make address.py stricter about herons"))[0] == "src/net/address.py"
    assert (await _files(finding, world, "parse_location should refuse herons"))[0] == "src/net/address.py"
    assert len(await _files(finding, world, "heron batches rows clone", limit=2)) == 2
    assert await _files(finding, world, "  ") == []


async def test_a_file_is_found_under_its_present_name_and_a_gone_one_not_at_all(
    finding: RepositoryFinding, world: World, api: Kept
) -> None:
    await api.file("src/new_name.py", "quiet")
    await api.commit("e" * 40, "Teach the heron to fish", "src/old_name.py", "src/gone.py", days_ago=9)
    await api.commit("f" * 40, "Tidy", renames={"src/old_name.py": "src/new_name.py"}, days_ago=3)

    found = await _files(finding, world, "heron fish")

    assert found[0] == "src/new_name.py"
    assert not {"src/old_name.py", "src/gone.py"} & set(found)


async def test_work_on_few_files_says_more_than_a_sweep(finding: RepositoryFinding, world: World, api: Kept) -> None:
    swept = [f"src/swept_{number}.py" for number in range(20)]
    for path in ("src/fisher.py", *swept):
        await api.file(path, "quiet")
    await api.commit("e" * 40, "Let the heron fish", *swept, days_ago=2)
    await api.commit("f" * 40, "Let the heron fish at night", "src/fisher.py", days_ago=2)

    assert (await _files(finding, world, "heron fish"))[0] == "src/fisher.py"


async def test_a_pull_request_speaks_for_its_files(finding: RepositoryFinding, world: World, api: Kept) -> None:
    await api.file("src/quiet.py", "nothing that speaks of it")
    await api.item("pull_request", "77", "Feed the herons", "They were hungry.", ["src/quiet.py"])

    found = await finding.files(world.owner, ["api"], "herons hungry")

    assert (found[0].path, found[0].past) == ("src/quiet.py", ("pr:77",))


@pytest.mark.contract("KS-4")
@pytest.mark.parametrize(
    ("query", "type", "place"),
    [
        ("parse_location", "file", "src/net/address.py"),
        ("self.parse_location", "file", "src/net/address.py"),
        ("src/net/address.py", "file", "src/net/address.py"),
        ("README", "file", "README.md"),
        ("a1b2c3d", "commit", "a1b2c3d4" + "0" * 32),
        ("#31", "pull_request", "31"),
        ("v1.2.0", "release", "v1.2.0"),
    ],
)
async def test_search_across_a_workspace_finds_what_a_query_names_first_too(
    world: World, api: Kept, query: str, type: str, place: str
) -> None:
    memory, workspace_id = world.services.memory, world.start.workspace_id
    await memory.save(world.owner, workspace_id, NewMemory(f"Ask Ana before you touch {query} again."))

    found = await memory.search(world.owner, workspace_id, query)
    assert (found[0].type, found[0].id.partition("/")[2], found[0].score) == (type, place, 1.0)
    assert found[0].meta["repository"] == "api"
    assert "memory" in {hit.type for hit in found}
    assert {hit.type for hit in await memory.search(world.owner, workspace_id, query, types=["memory"])} == {"memory"}


async def test_a_plain_word_is_no_name_across_a_workspace(world: World, api: Kept) -> None:
    memory, workspace_id = world.services.memory, world.start.workspace_id
    await memory.save(world.owner, workspace_id, NewMemory("We fetch rows at night, when nobody waits."))

    assert (await memory.search(world.owner, workspace_id, "fetch"))[0].score < 1
