"""Identity over the wire: who is let in, what they may do, and what errors look like."""

from tests.support.server import TestServer


async def test_me_says_whose_key_it_is(server: TestServer) -> None:
    async with server.client() as client:
        answer = await client.get("/api/me")
    assert answer.status_code == 200
    assert answer.json()["project_id"] == server.start.project_id
    assert answer.json()["is_person"] is False
    assert {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id"} <= set(answer.headers)
