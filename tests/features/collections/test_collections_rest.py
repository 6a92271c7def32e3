"""Collections over REST: what agents keep is listed, read, asked and searched, by whoever may read the workspace."""

import pytest

from holdfast.storage.database import Database
from tests.support.server import serving

pytestmark = pytest.mark.contract("XA-1")


async def test_what_is_kept_is_listed_read_asked_and_searched(database: Database) -> None:
    async with serving(database) as server, server.client() as client:
        base = f"/api/workspaces/{server.start.workspace_id}"
        company = (
            await client.post(f"{base}/records", json={"type": "company", "data": {"name": "Analytical"}})
        ).json()
        people = []
        for name in ("Ada", "Bob", "Eve"):
            body = {"type": "person", "data": {"name": name}, "collection": "people"}
            made = await client.post(f"{base}/records", json=body)
            assert made.status_code == 201, made.text
            people.append(made.json())
        first = (await client.get(f"{base}/records", params={"collection": "people", "limit": 2})).json()
        tie = {"from": {"type": "record", "id": people[1]["id"]}, "to": {"type": "record", "id": company["id"]}}
        related = await client.post(f"{base}/relations", json={**tie, "relation": "works_at"})
        assert related.status_code == 201, related.text
        rest = await client.get(
            f"{base}/records", params={"collection": "people", "limit": 2, "cursor": first["next_cursor"]}
        )
        assert [each["title"] for each in first["items"] + rest.json()["items"]] == [
            "person Ada",
            "person Bob",
            "person Eve",
        ]
        assert rest.json()["next_cursor"] is None
        assert (await client.get(f"{base}/records/{people[0]['id']}")).json() == people[0]
        changed = await client.post(
            f"{base}/records", json={"type": "person", "data": {"id": people[0]["id"], "name": "Ada L."}}
        )
        assert (changed.json()["id"], changed.json()["data"]["name"]) == (people[0]["id"], "Ada L.")
        asked = await client.post(
            f"{base}/records/search",
            json={"query": "find person where name = $who -> works_at company", "vars": {"who": "Bob"}},
        )
        assert [each["id"] for each in asked.json()["records"]] == [company["id"]], asked.text
        listed = {each["name"]: each for each in (await client.get(f"{base}/collections")).json()["items"]}
        assert listed["people"]["records"] >= 2 and listed["default"]["records"] >= 1
        found = await client.post(f"{base}/collections/nothing/search", json={"text": "Ada"})
        assert found.status_code == 404
        found = await client.post(f"{base}/collections/people/search", json={"text": "Ada"})
        assert (found.status_code, found.json()["items"]) == (200, [])


async def test_what_is_wrong_is_named_and_others_records_are_not_there(database: Database) -> None:
    async with serving(database) as server, server.client() as client:
        base = f"/api/workspaces/{server.start.workspace_id}"
        wrong = await client.post(f"{base}/records", json={"type": "no type", "data": {"a": 1}})
        assert (wrong.status_code, wrong.json()["error"]["fields"][0]["field"]) == (422, "record_type")
        query = await client.post(f"{base}/records/search", json={"query": "delete person"})
        assert query.status_code == 422
        made = (await client.post(f"{base}/records", json={"type": "person", "data": {"name": "Ada"}})).json()
        reader = await server.mint("read")
        async with server.client(reader.secret) as reading:
            assert (await reading.get(f"{base}/records/{made['id']}")).status_code == 200
            assert (await reading.post(f"{base}/records", json={"type": "x", "data": {"a": 1}})).status_code == 403
        other = await server.another_tenant()
        theirs = await server.mint(owner=other.owner, project_id=other.project_id)
        async with server.client(theirs.secret) as stranger:
            assert (await stranger.get(f"{base}/records/{made['id']}")).status_code == 404
            own = f"/api/workspaces/{other.workspace_id}/records/{made['id']}"
            assert (await stranger.get(own)).status_code == 404
