"""Owns the proof that no query finds another workspace's entries, or any that its filter leaves out."""

from functools import partial
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.search import Entry, Query
from holdfast.storage.database import Database
from tests.engines.search.corpus import NOW, engine, entry, put, workspace
from tests.support.clock import MovableClock
from tests.support.properties import examples

_names = count()
_words = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "snake_case", "東京"]), min_size=1, max_size=5)
_types = st.sampled_from(["memory", "document", "decision"])
_moments = st.integers(NOW - 50, NOW + 50)
_collections = st.sampled_from(["", "rep_a", "rep_b"])


@st.composite
def _entries(draw: st.DrawFn) -> list[tuple[int, dict[str, object]]]:
    fields = st.fixed_dictionaries(
        {
            "text": _words.map(" ".join),
            "type": _types,
            "learned_at": _moments,
            "valid_until": st.none() | _moments,
            "source": st.sampled_from(["", "s"]),
            "position": st.integers(0, 4),
            "collection": _collections,
            "meta": st.fixed_dictionaries({"kind": st.sampled_from(["x", "y"])}),
        }
    )
    drawn: list[tuple[int, dict[str, object]]] = draw(
        st.lists(st.tuples(st.integers(0, 2), fields), min_size=1, max_size=25)
    )
    return drawn


@given(
    drawn=_entries(),
    asked=_words.map(" ".join),
    types=st.none() | st.frozensets(_types, max_size=2),
    as_of=st.none() | _moments,
    kind=st.none() | st.sampled_from(["x", "y"]),
    collections=st.none() | st.frozensets(_collections, max_size=2),
)
@examples(25)
async def test_a_search_finds_only_what_its_workspace_and_filter_allow(
    database: Database,
    clock: MovableClock,
    drawn: list[tuple[int, dict[str, object]]],
    asked: str,
    types: frozenset[str] | None,
    as_of: int | None,
    kind: str | None,
    collections: frozenset[str] | None,
) -> None:
    clock.millis = NOW
    search = engine(database, clock)
    turn = next(_names)
    tenants = [await database.write(partial(workspace, name=f"t{turn}x{n}")) for n in range(3)]
    entries = [
        entry(tenants[tenant], f"{tenant}-{number}", **fields)  # type: ignore[arg-type]
        for number, (tenant, fields) in enumerate(drawn)
    ]
    await put(search, database, entries)

    def allowed(one: Entry, tenant: str) -> bool:
        at = NOW if as_of is None else as_of
        return (
            one.workspace_id == tenant
            and (types is None or one.type in types)
            and (collections is None or one.collection in collections)
            and (as_of is None or one.learned_at <= as_of)
            and (one.valid_until is None or one.valid_until > at)
            and (kind is None or one.meta["kind"] == kind)
        )

    for tenant in tenants:
        meta = {} if kind is None else {"kind": kind}
        query = Query(tenant, asked, types, 100, as_of, meta, collections=collections)
        hits = await search.search(query)
        expected = {one.id for one in entries if allowed(one, tenant)}
        # So few entries are all candidates, so everything that is allowed is also found.
        assert {hit.id for hit in hits} == expected
        assert all(0 <= hit.score <= 1 for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
