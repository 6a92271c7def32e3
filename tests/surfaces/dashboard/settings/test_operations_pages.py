"""The pages of endpoints, clients, the audit log and usage."""

import json
import re

from holdfast.core.clock import Clock, iso
from holdfast.features.clients.model import NewClient
from holdfast.features.clients.service import Clients
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.usage.service import Usage
from holdfast.storage.database import Tx
from tests.support.server import TestServer

_UPSTREAM = {"name": "default", "kind": "openai", "base_url": "https://api.example.com/v1", "model": "large-1"}


async def test_an_upstream_is_connected_and_removed(sqlite_server: TestServer) -> None:
    project = sqlite_server.start.project_id
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        assert "The embedded model answers" in (await owner.get("/settings/endpoints")).text
        form = {**_UPSTREAM, "project_id": project, "price_in": "2.50"}
        assert (await owner.post("/settings/endpoints", data=form)).status_code == 303
        page = (await owner.get("/settings/endpoints")).text
        assert "large-1" in page and f"{project}/default/v1" in page and "2.5 / 0.0" in page
        one = f"/settings/endpoints/{project}/default/upstreams/0/remove"
        stale = await owner.post(one, data={"base_url": "https://other.example.com/v1"})
        assert stale.status_code == 404
        assert (await owner.post(one, data={"base_url": _UPSTREAM["base_url"]})).status_code == 303
        assert "The embedded model answers" in (await owner.get("/settings/endpoints")).text


async def test_an_endpoint_of_its_own_is_made_and_removed(sqlite_server: TestServer) -> None:
    project = sqlite_server.start.project_id
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        form = {**_UPSTREAM, "project_id": project, "name": "fast"}
        assert (await owner.post("/settings/endpoints", data=form)).status_code == 303
        assert f"{project}/fast/v1" in (await owner.get("/settings/endpoints")).text
        assert (await owner.post(f"/settings/endpoints/{project}/fast/remove")).status_code == 303
        assert f"{project}/fast/v1" not in (await owner.get("/settings/endpoints")).text


async def test_what_cannot_be_an_upstream_keeps_the_form_and_says_why(sqlite_server: TestServer) -> None:
    project = sqlite_server.start.project_id
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        for wrong, field in (
            ({"base_url": "http://169.254.169.254/v1"}, "base_url"),
            ({"price_in": "cheap"}, "price_in"),
            ({"name": "Two Words"}, "name"),
        ):
            answer = await owner.post("/settings/endpoints", data={**_UPSTREAM, "project_id": project, **wrong})
            assert answer.status_code == 422, (wrong, answer.status_code)
            assert f'id="wrong-{field}"' in answer.text and 'value="large-1"' in answer.text


async def test_members_see_where_chats_go_change_nothing_and_nobody_sees_the_key(sqlite_server: TestServer) -> None:
    services, workspace = sqlite_server.services, sqlite_server.start.workspace_id
    await services.secrets.set(sqlite_server.owner, workspace, "UPSTREAM_KEY", "canary-value", ["api.example.com"])
    upstream = EndpointUpstream(base_url=_UPSTREAM["base_url"], model="large-1", key_secret="UPSTREAM_KEY")
    await services[Endpoints].add_upstream(sqlite_server.owner, sqlite_server.start.project_id, "default", upstream)
    member = await services.identity.create_user(sqlite_server.owner, email="mo@example.com", name="Mo")
    async with (
        await sqlite_server.browser(sqlite_server.start.owner_id) as owner,
        await sqlite_server.browser(member.id) as mo,
    ):
        page = (await owner.get("/settings/endpoints")).text
        own = (await mo.get("/settings/endpoints")).text
    assert "UPSTREAM_KEY" in page and "canary-value" not in page
    assert "large-1" in own and "canary-value" not in own and "<form method" not in own.partition("<main")[2]


async def test_the_matrix_shows_what_a_client_declared_beside_what_is_documented(sqlite_server: TestServer) -> None:
    seen = NewClient("claude-code", "2.1.0", "2025-06-18", "Claude Code", {"roots": {}})
    own = NewClient("<b>own</b>", "0.1", "2025-06-18", "", {"sampling": {}})
    for each in (seen, own):
        await sqlite_server.services[Clients].see(sqlite_server.owner, each)
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        page = (await owner.get("/settings/clients")).text
    rows = {re.sub(r"<[^>]+>|\s", "", each.partition("</th>")[0]): each for each in page.split('<th scope="row">')[1:]}
    assert rows["ClaudeCode2.1.0·MCP2025-06-18"].count("not declared") == 2
    assert rows["OpenAICodex"].count("not yet") == 1
    assert "&lt;b&gt;own&lt;/b&gt;" in page and "<b>own" not in page


async def test_the_audit_log_is_filtered_paged_exported_and_verified(sqlite_server: TestServer) -> None:
    services = sqlite_server.services
    for at in range(105):
        await services.identity.create_user(sqlite_server.owner, email=f"user-{at}@example.com", name=f"User {at}")
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        first = (await owner.get("/settings/audit?action=user.create")).text
        assert first.count("user.create</code>") == 100 and "project.create</code>" not in first
        more = re.search(r'hx-get="(/settings/audit\?[^"]*cursor[^"]+)"', first)
        assert more is not None
        part = await owner.get(more[1].replace("&amp;", "&"), headers={"HX-Request": "true"})
        assert "<html" not in part.text and 5 <= part.text.count("user.create</code>") <= 7
        export = re.search(r'href="(/api/audit/export\?[^"]*)"', first)
        assert export is not None
        lines = (await owner.get(export[1].replace("&amp;", "&"))).text.splitlines()
        assert {json.loads(line)["action"] for line in lines} == {"user.create"} and len(lines) >= 105
        assert "Nothing fits" in (await owner.get("/settings/audit?actor=nobody")).text
        assert (await owner.get("/settings/audit?since=soon")).status_code == 422
        assert (await owner.get("/settings/audit?outcome=maybe")).status_code == 422
        verified = await owner.post("/settings/audit/verify")
        assert verified.status_code == 200 and "Nobody changed the log" in verified.text


async def test_the_audit_log_is_narrowed_to_a_person_by_their_address(sqlite_server: TestServer) -> None:
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        await owner.post("/settings/profile/name", data={"name": "Ada"})
        mine = (await owner.get("/settings/audit?actor=Owner@localhost")).text
        export = re.search(r'href="(/api/audit/export\?[^"]*)"', mine)
        assert export is not None
        lines = (await owner.get(export[1].replace("&amp;", "&"))).text.splitlines()
    assert mine.count('class="action"') == len(lines) > 0
    assert {json.loads(line)["actor"] for line in lines} == {sqlite_server.start.owner_id}
    assert f'href="/settings/audit?actor={sqlite_server.start.owner_id}"' in mine


async def test_what_is_exported_until_a_day_has_that_day_as_the_page_shows_it(sqlite_server: TestServer) -> None:
    day = iso(sqlite_server.services[Clock].now())[:10]
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        page = (await owner.get(f"/settings/audit?since={day}&until={day}")).text
        export = re.search(r'href="(/api/audit/export\?[^"]*)"', page)
        assert export is not None
        lines = (await owner.get(export[1].replace("&amp;", "&"))).text.splitlines()
    assert len(lines) == page.count('class="action"') > 0


async def test_a_changed_log_is_told(sqlite_server: TestServer) -> None:
    services = sqlite_server.services
    await services.identity.create_user(sqlite_server.owner, email="mo@example.com", name="Mo")

    def tamper(tx: Tx) -> None:
        # Somebody with the file itself takes the guard away first.
        for row in tx.all("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit_event'"):
            tx.execute(f"DROP TRIGGER {row['name']}")
        tx.execute("UPDATE audit_event SET actor_name = 'somebody else' WHERE action = 'user.create'")

    await services.database.write(tamper)
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        verified = await owner.post("/settings/audit/verify")
    assert "Somebody changed the log" in verified.text and "altered" in verified.text


async def test_usage_is_shown_by_day_model_way_and_person(sqlite_server: TestServer) -> None:
    usage = sqlite_server.services[Usage]
    usage.log(
        sqlite_server.owner, source="rest", operation="ask", model="large-1", tokens_in=40_000, tokens_out=2, cost=0.5
    )
    member = await sqlite_server.services.identity.create_user(sqlite_server.owner, email="mo@example.com", name="Mo")
    async with (
        await sqlite_server.browser(sqlite_server.start.owner_id) as owner,
        await sqlite_server.browser(member.id) as mo,
    ):
        page = (await owner.get("/settings/usage")).text
        own = (await mo.get("/settings/usage")).text
    assert "large-1" in page and "40,002" in page and "0.50" in page and page.count("<rect") == 28
    of_the_model = re.findall(r"<td[^>]*>([^<]*)</td>", page.partition("<td>large-1</td>")[2])[:3]
    assert of_the_model == ["1", "40,002", "0.50"], "a model was called as often as it answered"
    assert "large-1" not in own and "Nothing was used this week." in own
