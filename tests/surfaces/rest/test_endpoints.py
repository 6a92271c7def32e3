"""Proves secrets and endpoints over REST."""

from tests.support.server import TestServer


async def test_a_secret_goes_in_and_never_comes_out(server: TestServer) -> None:
    space = f"/api/workspaces/{server.start.workspace_id}/secrets"
    async with server.client() as client:
        made = await client.put(f"{space}/LINEAR_API_KEY", json={"value": "lin-very-secret"})
        listed = await client.get(space)
        one = await client.get(f"{space}/LINEAR_API_KEY")
        wrong = await client.put(f"{space}/LINEAR_API_KEY", json={"value": ["lin-very-secret"]})
        lower = await client.put(f"{space}/linear", json={"value": "lin-very-secret"})
        cleared = await client.delete(f"{space}/LINEAR_API_KEY")
        after = await client.get(space)

    assert made.status_code == 200
    assert set(made.json()) == {"name", "is_set", "hosts", "created_at", "updated_at", "updated_by"}
    assert listed.json()["items"] == [made.json()]
    assert one.status_code == 405
    assert (wrong.status_code, lower.status_code) == (422, 422)
    assert "lin-very" not in made.text + listed.text + wrong.text + lower.text
    assert cleared.status_code == 204
    assert after.json()["items"][0]["is_set"] is False


async def test_endpoints_are_made_changed_and_removed(server: TestServer) -> None:
    every = f"/api/projects/{server.start.project_id}/endpoints"
    upstream = {"base_url": "https://api.example.com/v1", "model": "big"}
    async with server.client() as client:
        made = await client.post(every, json={"name": "fast", "upstreams": [upstream]})
        again = await client.post(every, json={"name": "fast", "upstreams": [upstream]})
        changed = await client.put(f"{every}/fast", json={"upstreams": [upstream, {**upstream, "model": "small"}]})
        listed = await client.get(every)
        default = await client.get(f"{every}/default")
        private = await client.put(f"{every}/x", json={"upstreams": [{**upstream, "base_url": "http://10.0.0.1/v1"}]})
        removed = await client.delete(f"{every}/fast")
        gone = await client.get(f"{every}/fast")

    assert (made.status_code, again.status_code) == (201, 409)
    assert made.json()["path"] == f"/{server.start.project_id}/fast/v1"
    assert [each["model"] for each in changed.json()["upstreams"]] == ["big", "small"]
    assert [each["name"] for each in listed.json()["items"]] == ["default", "fast"]
    assert default.json()["embedded"] is True
    assert (private.status_code, private.json()["error"]["fields"][0]["field"]) == (422, "base_url")
    assert (removed.status_code, gone.status_code) == (204, 404)
