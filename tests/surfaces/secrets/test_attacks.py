"""Proves that nobody has a secret sent to themselves: who may use one, where it goes, and what leads it astray."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.core.principal import Scope, Tier
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.identity.model import NewKey
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.eavesdropper import Eavesdropper, eavesdropper, redirect
from tests.support.server import TestServer, serving

VALUE = "sk-victim-0123456789abcdef"
NAME = "OPENAI_KEY"
NO_HOSTS = (
    *("", "*", "*.example.com", "https://a.example", "a.example/x", "good@evil.example", "a.example:0", "a.example:x"),
    *("a b", "127.1", "0x7f.0.0.1", "[::1", "a.example?x", "a.example#x", "a%2eexample", "x" * 300, "a\\b", "-a"),
)


@dataclass
class Scene:
    """A server whose operator lets two local servers be reached: a good one and somebody else's."""

    server: TestServer
    good: Eavesdropper
    evil: Eavesdropper

    @property
    def space(self) -> str:
        return f"/api/workspaces/{self.server.start.workspace_id}"

    @property
    def endpoints(self) -> str:
        return f"/api/projects/{self.server.start.project_id}/endpoints"

    async def key(self, *scopes: Scope, tier: Tier = "all", confined: bool = False) -> str:
        ids = frozenset({self.server.start.workspace_id}) if confined else None
        return (await self.server.mint(*scopes, tier=tier, workspace_ids=ids)).secret

    async def keep(self, **more: Any) -> None:
        """The victim's secret, set by the owner."""
        async with self.server.client() as owner:
            kept = await owner.put(f"{self.space}/secrets/{NAME}", json={"value": VALUE, **more})
            assert kept.status_code == 200, kept.text

    async def hosts(self) -> list[str]:
        async with self.server.client() as owner:
            return list((await owner.get(f"{self.space}/secrets")).json()["items"][0]["hosts"])

    def upstream(self, where: Eavesdropper, **more: Any) -> dict[str, Any]:
        return {"base_url": where.url("/v1"), "model": "m", "key_secret": NAME, **more}

    async def settled(self, client: httpx.AsyncClient, job_id: str) -> str | None:
        """Why a sync failed."""
        job = await self.server.services.jobs.wait(job_id, timeout_seconds=60)
        return job.error


@asynccontextmanager
async def scene(database: Database, directory: Path) -> AsyncIterator[Scene]:
    async with eavesdropper() as good, eavesdropper() as evil:
        places = (good.place, evil.place)
        async with serving(database, data_dir=directory, upstream_allow=places, fetch_allow=places) as server:
            yield Scene(server, good, evil)


@pytest.fixture
async def on_both(database: Database, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(database, tmp_path / "data") as made:
        yield made


@pytest.fixture
async def here(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(sqlite_database, tmp_path / "data") as made:
        yield made


@pytest.mark.contract("XA-3")
async def test_a_core_inference_key_has_no_secret_sent_to_its_repository(on_both: Scene) -> None:
    """Finding 2 of the review: the weakest key named a secret and its own server, and read it there."""
    await on_both.keep()
    weakest = await on_both.key("inference", tier="core")
    async with on_both.server.client(weakest) as client:
        body = {"location": on_both.evil.url("/x/y.git"), "key_from": NAME}
        refused = await client.post(f"{on_both.space}/repositories", json=body)
        unknown = await client.post(f"{on_both.space}/repositories", json={**body, "key_from": "NO_SUCH"})
    assert (refused.status_code, unknown.status_code) == (403, 403)
    # Both say what is missing, and neither says whether the secret exists.
    assert refused.json()["error"]["message"] == unknown.json()["error"]["message"]
    assert "management" in refused.json()["error"]["message"]
    assert on_both.evil.heard == []


@pytest.mark.contract("XA-3")
async def test_the_first_use_by_an_admin_binds_and_later_ones_go_nowhere_else(on_both: Scene) -> None:
    await on_both.keep()
    assert await on_both.hosts() == []
    manager = await on_both.key("management")
    async with on_both.server.client(manager) as client:
        made = await client.post(on_both.endpoints, json={"name": "a", "upstreams": [on_both.upstream(on_both.good)]})
        other = await client.post(on_both.endpoints, json={"name": "b", "upstreams": [on_both.upstream(on_both.evil)]})
        moved = await client.put(f"{on_both.endpoints}/a", json={"upstreams": [on_both.upstream(on_both.evil)]})
        both = [on_both.upstream(on_both.good), on_both.upstream(on_both.evil, priority=9)]
        fallback = await client.put(f"{on_both.endpoints}/a", json={"upstreams": both})
    assert made.status_code == 201, made.text
    assert await on_both.hosts() == [on_both.good.place]
    for refused in (other, moved, fallback):
        assert (refused.status_code, refused.json()["error"]["fields"][0]["field"]) == (422, "key_secret")
        assert on_both.good.place in refused.json()["error"]["fields"][0]["message"]
    events = (await on_both.server.services.audit.list(on_both.server.owner, limit=200)).items
    (bound,) = [event for event in events if event.action == "workspace.secret.hosts"]
    assert bound.detail == {"name": NAME, "hosts": [on_both.good.place], "before": []}
    assert VALUE not in str(events)


async def test_of_two_first_uses_at_once_one_binds(on_both: Scene) -> None:
    await on_both.keep()
    async with on_both.server.client() as owner:
        answers = await asyncio.gather(
            *(
                owner.put(f"{on_both.endpoints}/x{number}", json={"upstreams": [on_both.upstream(where)]})
                for number, where in enumerate([on_both.good, on_both.evil] * 4)
            )
        )
    (bound,) = await on_both.hosts()
    statuses = [[answer.status_code for answer in answers[start::2]] for start in (0, 1)]
    won, lost = statuses if bound == on_both.good.place else reversed(statuses)
    assert (set(won), set(lost)) == ({200}, {422})


async def test_replacing_a_value_keeps_its_hosts_and_only_the_value_moves_them(on_both: Scene) -> None:
    await on_both.keep(hosts=["API.OpenAI.com.", "api.openai.com:443", "git.example.org:8443", "bücher.example"])
    bound = ["api.openai.com", "git.example.org:8443", "xn--bcher-kva.example"]
    assert await on_both.hosts() == bound
    await on_both.keep()
    assert await on_both.hosts() == bound
    async with on_both.server.client() as owner:
        without = await owner.put(f"{on_both.space}/secrets/{NAME}", json={"hosts": [on_both.evil.place]})
    assert without.status_code == 422
    assert await on_both.hosts() == bound
    await on_both.keep(hosts=["api.openai.com"])
    assert await on_both.hosts() == ["api.openai.com"]


@pytest.mark.parametrize("host", NO_HOSTS)
async def test_what_is_no_plain_host_binds_nothing(here: Scene, host: str) -> None:
    async with here.server.client() as owner:
        refused = await owner.put(f"{here.space}/secrets/{NAME}", json={"value": VALUE, "hosts": [host]})
    assert refused.status_code == 422
    assert refused.json()["error"]["fields"][0]["field"].startswith("hosts")
    assert VALUE not in refused.text


async def test_a_bound_secret_takes_no_other_spelling_port_or_scheme_for_its_host(here: Scene) -> None:
    await here.keep(hosts=["api.good.example"])
    same = ["https://api.good.example/v1", "https://API.Good.Example./v1", "https://api.good.example:443/v1"]
    others = [
        "https://api.good.example:8443/v1",
        "http://api.good.example/v1",
        "http://api.good.example:443/v1",
        "https://api.good.example.evil.example/v1",
        "https://good.example/v1",
        "https://xapi.good.example/v1",
        "https://api.göod.example/v1",
        "https://api.good.example@evil.example/v1",
        "https://evil.example#@api.good.example/v1",
        "https://evil.example\\@api.good.example/v1",
        "https://evil.example/api.good.example/v1",
    ]
    async with here.server.client() as owner:
        for url in same:
            made = await owner.put(f"{here.endpoints}/x", json={"upstreams": [here.upstream(here.good, base_url=url)]})
            assert made.status_code == 200, (url, made.text)
        for url in others:
            made = await owner.put(f"{here.endpoints}/x", json={"upstreams": [here.upstream(here.good, base_url=url)]})
            assert made.status_code == 422, url
        for url in others:
            body = {"location": f"{url}/x.git", "key_from": NAME}
            added = await owner.post(f"{here.space}/repositories", json=body)
            # A user in a repository's address is dropped; the host behind it is what counts.
            assert added.status_code == 422, url
    assert await here.hosts() == ["api.good.example"]


async def test_an_unbound_secret_is_not_bound_by_plain_http(here: Scene) -> None:
    await here.keep()
    async with here.server.client() as owner:
        upstream = here.upstream(here.good, base_url="http://api.good.example/v1")
        refused = await owner.put(f"{here.endpoints}/x", json={"upstreams": [upstream]})
        for scheme in ("http", "git"):
            body = {"location": f"{scheme}://git.good.example/x/y.git", "key_from": NAME}
            cloned = await owner.post(f"{here.space}/repositories", json=body)
            assert (cloned.status_code, cloned.json()["error"]["fields"][0]["field"]) == (422, "key_from")
    assert (refused.status_code, refused.json()["error"]["fields"][0]["field"]) == (422, "key_secret")
    assert "https" in refused.json()["error"]["fields"][0]["message"]
    assert await here.hosts() == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_an_upstream_that_redirects_leads_neither_the_key_nor_the_client_away(here: Scene, status: int) -> None:
    await here.keep()
    here.good.answers = [redirect(status, here.evil.url("/v1/chat/completions"))]
    async with here.server.client() as owner:
        await owner.put(f"{here.endpoints}/x", json={"upstreams": [here.upstream(here.good)]})
        base = f"/{here.server.start.project_id}/x/v1"
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        whole = await owner.post(f"{base}/chat/completions", json=body)
        streamed = await owner.post(f"{base}/chat/completions", json={**body, "stream": True})
        embedded = await owner.post(f"{base}/embeddings", json={"model": "m", "input": "hi"})
    for answer in (whole, streamed, embedded):
        assert answer.status_code == 502, answer.text
        assert "location" not in answer.headers
        assert "redirects" in answer.text
    assert here.good.heard_of(VALUE)
    assert here.evil.heard == []


async def test_a_git_server_that_redirects_leads_no_token_away(here: Scene) -> None:
    await here.keep()
    here.good.answers = [redirect(302, here.evil.url("/x/y.git/info/refs?service=git-upload-pack"))]
    async with here.server.client() as owner:
        body = {"location": here.good.url("/x/y.git"), "key_from": NAME}
        added = await owner.post(f"{here.space}/repositories", json=body)
        assert added.status_code == 201, added.text
        problem = await here.settled(owner, added.json()["job_id"])
    assert "never sent to another" in str(problem)
    assert here.good.heard_of(VALUE)
    assert here.evil.heard == []


async def test_a_secret_whose_hosts_were_changed_is_kept_from_what_used_it(here: Scene) -> None:
    """Checked when it is sent, not only when it is set up."""
    await here.keep()
    base = f"/{here.server.start.project_id}/x/v1"
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with here.server.client() as owner:
        await owner.put(f"{here.endpoints}/x", json={"upstreams": [here.upstream(here.good)]})
        added = await owner.post(
            f"{here.space}/repositories", json={"location": here.good.url("/x/y.git"), "key_from": NAME}
        )
        await here.settled(owner, added.json()["job_id"])
        await owner.post(f"{base}/chat/completions", json=body)
        assert here.good.heard_of(VALUE)
        here.good.heard.clear()
        await here.keep(hosts=["api.elsewhere.example"])
        refused = await owner.post(f"{base}/chat/completions", json=body)
        synced = await owner.post(f"{here.space}/repositories/y/sync")
        problem = await here.settled(owner, synced.json()["job_id"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "secret_kept")
    assert "api.elsewhere.example" in str(problem)
    assert here.good.heard == []


async def test_names_of_secrets_are_told_to_people_and_managers_only(on_both: Scene) -> None:
    await on_both.keep(hosts=[on_both.good.place])
    async with on_both.server.client() as owner:
        await owner.put(f"{on_both.endpoints}/x", json={"upstreams": [on_both.upstream(on_both.good)]})
        added = await owner.post(
            f"{on_both.space}/repositories", json={"location": on_both.good.url("/x/y.git"), "key_from": NAME}
        )
        assert added.json()["key_from"] == NAME
        await owner.put(f"{on_both.space}/repositories/y/webhook", json={"secret": NAME})
    for scopes in (("read",), ("inference",), ("read", "inference")):
        async with on_both.server.client(await on_both.key(*scopes)) as client:
            refused = await client.get(f"{on_both.space}/secrets")
            shown = await client.get(f"{on_both.space}/repositories/y")
            listed = await client.get(f"{on_both.space}/repositories")
            endpoint = await client.get(f"{on_both.endpoints}/x")
        assert refused.status_code == 403 and "management" in refused.text
        assert NAME not in refused.text + shown.text + listed.text + endpoint.text
        assert (shown.status_code, listed.status_code, endpoint.status_code) == (200, 200, 200)
    async with on_both.server.client(await on_both.key("management", confined=True)) as manager:
        assert [each["name"] for each in (await manager.get(f"{on_both.space}/secrets")).json()["items"]] == [NAME]


@contextmanager
def rebinding(monkeypatch: pytest.MonkeyPatch, name: str, *answers: str) -> Iterator[list[str]]:
    """A name server under somebody else's control: each question gets the next answer, the last one for ever."""
    real = socket.getaddrinfo
    asked: list[str] = []

    def lookup(host: Any, port: Any, *more: Any, **options: Any) -> Any:
        if host not in (name, name.encode()):
            return real(host, port, *more, **options)
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append(answer)
        return real(answer, port, *more, **options)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", lookup)
        yield asked


async def test_a_name_that_comes_to_mean_this_machine_reaches_nothing_on_it(
    sqlite_database: SqliteDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding through endpoints and repositories: the answer that is connected to is the one that was judged."""
    async with eavesdropper() as inner, serving(sqlite_database, data_dir=tmp_path / "data") as server:
        base_url = inner.url("/v1", host="rebind.example")
        space = f"/api/workspaces/{server.start.workspace_id}"
        endpoint = f"/api/projects/{server.start.project_id}/endpoints/x"
        chat = f"/{server.start.project_id}/x/v1/chat/completions"
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        async with server.client() as owner:
            made = await owner.put(endpoint, json={"upstreams": [{"base_url": base_url, "model": "m"}]})
            assert made.status_code == 200, made.text
            for answers in (["127.0.0.1"], ["169.254.169.254", "127.0.0.1"], ["10.0.0.1", "127.0.0.1"]):
                with rebinding(monkeypatch, "rebind.example", *answers):
                    refused = await owner.post(chat, json=body)
                assert refused.status_code == 502, refused.text
                assert "may not be used" in refused.text
            with rebinding(monkeypatch, "rebind.example", "127.0.0.1"):
                added = await owner.post(
                    f"{space}/repositories", json={"location": base_url.replace("/v1", "/x/y.git"), "slug": "y"}
                )
                job = await server.services.jobs.wait(added.json()["job_id"], timeout_seconds=60)
            assert "not on the public internet" in str(job.error)
    assert inner.heard == []


async def test_localhost_that_comes_to_mean_another_machine_gets_no_key(
    here: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In clear a key stays on this machine, whatever a name server says by then."""
    await here.keep()
    services, start = here.server.services, here.server.start
    async with here.server.client() as owner:
        spec = EndpointUpstream(base_url=here.good.url("/v1", host="localhost"), model="m", key_secret=NAME)
        await services.endpoints.put(here.server.owner, start.project_id, "x", [spec])
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        with rebinding(monkeypatch, "localhost", "10.9.8.7"):
            refused = await owner.post(f"/{start.project_id}/x/v1/chat/completions", json=body)
        assert refused.status_code == 502
        assert "only to this machine" in refused.text
        with rebinding(monkeypatch, "localhost", "127.0.0.1"):
            await owner.post(f"/{start.project_id}/x/v1/chat/completions", json=body)
    assert here.good.heard_of(VALUE)


async def test_a_confined_manager_uses_no_secret_of_another_workspace(on_both: Scene) -> None:
    start, services, owner = on_both.server.start, on_both.server.services, on_both.server.owner
    other = await services.workspaces.create(owner, start.project_id, "Other")
    await services.secrets.set(owner, other.id, NAME, VALUE)
    confined = await services.keys.create(
        owner,
        NewKey(
            name="confined",
            project_id=start.project_id,
            scopes=frozenset({"management", "inference"}),
            workspace_ids=frozenset({start.workspace_id}),
        ),
    )
    async with on_both.server.client(confined.secret) as client:
        elsewhere = f"/api/workspaces/{other.id}"
        body = {"location": on_both.evil.url("/x/y.git"), "key_from": NAME}
        assert (await client.post(f"{elsewhere}/repositories", json=body)).status_code == 404
        assert (await client.get(f"{elsewhere}/secrets")).status_code == 404
        assert (await client.put(f"{elsewhere}/secrets/{NAME}", json={"value": "x"})).status_code == 404
        assert (await client.post(f"{on_both.space}/repositories", json=body)).status_code == 422
        upstream = on_both.upstream(on_both.evil, key_workspace_id=other.id)
        assert (await client.put(f"{on_both.endpoints}/x", json={"upstreams": [upstream]})).status_code == 403
    assert on_both.evil.heard == []
