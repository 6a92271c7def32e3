"""Owns what people come to the dashboard for: how it is done, in how many steps, by whom, and that others may not."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from playwright.async_api import expect

from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.cases.service import CaseService
from holdfast.features.execution.approvals.service import Approvals
from holdfast.features.execution.model import InvocationRequest
from holdfast.features.execution.service import Execution
from tests.fakes.llm.model import FakeModel, calls, says
from tests.support.pages.browsing import Person
from tests.support.pages.chatting import Room
from tests.support.pages.dashboard import seed_repository
from tests.support.server import TestServer

ALL = frozenset({"owner", "admin", "member", "workspace admin"})
ADMINS = frozenset({"owner", "admin"})
OF_THE_WORKSPACE = ADMINS | {"workspace admin"}


@dataclass(frozen=True)
class Scene:
    """Somebody at work, and what they work with."""

    person: Person
    role: str
    server: TestServer
    upstream: FakeModel
    folder: Path
    forced: httpx.AsyncClient
    """The same person without pages: what a page does not offer is sent all the same."""


@dataclass(frozen=True)
class Flow:
    """One thing that people come for."""

    name: str
    run: Callable[[Scene], Awaitable[None]]
    steps: int
    roles: frozenset[str] = ALL
    refused: Callable[[Scene], Awaitable[None]] | None = None
    """What is checked for those who may not."""


async def correct_a_memory(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    await person.open("/w/default/memory")
    await person.write(page.get_by_role("searchbox", name="Search"), "deploy on fridays")
    await page.get_by_text("rate limit").first.wait_for(state="hidden")
    await person.press(page.get_by_role("link", name="The deploy runs on Fridays"))
    await person.write(page.get_by_label("What holds now"), "The deploy runs on Mondays at nine.")
    await person.press(page.get_by_role("button", name="Correct"))
    await page.get_by_role("status").get_by_text("Corrected").wait_for()
    await page.get_by_role("heading", name="The deploy runs on Mondays at nine", level=1).wait_for()
    # Its history tells what it said before.
    await page.get_by_role("link", name="The deploy runs on Fridays").wait_for()


async def settle_a_contradiction(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    acts = {"admin": "Keep this one", "workspace admin": "Keep both"}
    await person.open("/")
    await person.press(page.locator("#overview").get_by_role("link", name="The rate limit is 60").first)
    await page.get_by_role("heading", name="Contradictions").wait_for()
    await person.ready()
    await person.press(page.get_by_role("button", name=acts.get(scene.role, "It replaced the older")).first)
    await page.get_by_text("Nothing contradicts").wait_for()


async def mint_and_rotate_a_key(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    await person.open("/settings/keys")
    await person.write(page.get_by_label("Name", exact=True), "laptop")
    await person.press(page.get_by_role("button", name="Make the key"))
    first = await page.locator("[data-secret]").inner_text()
    await person.press(page.get_by_role("button", name="Rotate laptop"))
    await page.get_by_text("revoked").wait_for()
    second = await page.locator("[data-secret]").inner_text()
    assert first.startswith("xero_") and second.startswith("xero_") and first != second
    async with scene.server.client(first) as old, scene.server.client(second) as new:
        assert ((await old.get("/api/me")).status_code, (await new.get("/api/me")).status_code) == (401, 200)


async def mint_no_key(scene: Scene) -> None:
    page = (await scene.forced.get("/settings/keys")).text
    assert "Make the key" not in page
    forced = await scene.forced.post("/settings/keys", data={"name": "taken", "scopes": "inference"})
    assert forced.status_code == 403, forced.text


async def set_a_secret(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    await person.open("/w/default/settings/secrets")
    await person.write(page.get_by_label("Name"), "LINEAR_API_KEY")
    await person.write(page.get_by_label("Value"), "canary-that-no-page-shows")
    await person.press(page.get_by_role("button", name="Save the secret"))
    await page.get_by_role("link", name="Replace LINEAR_API_KEY").wait_for()
    assert "canary" not in await page.content()


async def set_no_secret(scene: Scene) -> None:
    assert "/settings/secrets" not in (await scene.forced.get("/w/default/memory")).text
    forced = await scene.forced.post("/w/default/settings/secrets", data={"name": "TAKEN", "value": "x"})
    assert forced.status_code == 403, forced.text


async def open_cited_lines(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    slug = await seed_repository(scene.server, scene.folder)
    await person.open(f"/w/default/repos/{slug}")
    await person.write(page.get_by_label("Question"), "How does Invoice compute its total?")
    await person.press(page.get_by_role("button", name="Ask"))
    cited = page.locator('a[href*="/files?"]').first
    await cited.wait_for()
    await person.check()
    # Asking was what they came for; what is counted is the way to the lines.
    person.steps = 0
    await person.press(cited)
    await page.locator("li.cited").first.wait_for()


async def compare_two_versions(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    artifacts, workspace = scene.server.services[ArtifactService], scene.server.start.workspace_id
    made = next(each for each in (await artifacts.page(scene.server.owner, workspace)).items if each.title == "Hello")
    await artifacts.update(scene.server.owner, workspace, ArtifactReference(made.id), "<h1>Hello once more</h1>")
    await person.open(f"/w/default/artifacts/{made.id}")
    await person.choose_older(page.get_by_label("From"))
    await person.press(page.get_by_role("button", name="Compare"))
    await page.get_by_role("heading", name="Version 1 to 3").wait_for()
    await page.get_by_text("+<h1>Hello once more</h1>").wait_for()


async def _enter(scene: Scene) -> Room:
    await scene.person.open("/chat/default")
    room = Room(scene.person)
    await room.choose("main")
    return room


async def chat_with_tools_and_a_question(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    scene.upstream.script[:] = [
        calls(("calculator", {"expression": "17*3"})),
        calls(("ask_user", {"question": "Which environment?", "options": ["staging", "production"]})),
        says("It is 51 on staging."),
    ]
    room = await _enter(scene)
    await person.press(page.locator(".composer summary"))
    await person.tick(page.get_by_label("Calculate"))
    await room.write("What is 17*3 there?")
    await person.tick(page.get_by_label("staging"))
    await person.press(page.get_by_role("button", name="Answer"))
    await expect(room.answers.last).to_contain_text("It is 51 on staging.")
    await expect(page.locator(".tool", has_text="Calculated")).to_be_visible()


async def find_an_old_chat(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    await person.open("/chat")
    await person.write(page.get_by_role("searchbox"), "fridays NOON")
    found = page.locator("#found a", has_text="Fridays at noon").first
    await found.wait_for()
    await person.press(found)
    await expect(page.locator(".message:target")).to_contain_text("Fridays at noon")
    await person.ready()


async def _waiting_call(scene: Scene, name: str) -> str:
    """A call that waits for a decision; its way to be decided."""
    request = InvocationRequest(
        principal=scene.server.owner,
        workspace_id=scene.server.start.workspace_id,
        tool_name="demo.count",
        arguments={"name": name},
        source="cli",
    )
    approval = (await scene.server.services[Execution].invoke(request)).invocation.approval
    assert approval is not None
    return f"/approve/{approval.token}"


async def approve_a_call(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    await _waiting_call(scene, "approved")
    await person.open("/")
    await person.press(page.locator("#overview").get_by_role("link", name="demo.count").first)
    await page.get_by_role("heading", name="demo.count", level=1).wait_for()
    await person.ready()
    await person.press(page.get_by_role("button", name="Approve"))
    await page.get_by_text("The call is now:").wait_for()


async def approve_nothing(scene: Scene) -> None:
    path = await _waiting_call(scene, "not approved")
    page = (await scene.forced.get(path)).text
    assert "An admin of the workspace has to decide." in page and 'value="approve"' not in page
    forced = await scene.forced.post(path, data={"decision": "approve"})
    assert forced.status_code == 403, forced.text


async def approve_inside_a_chat(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    scene.upstream.script[:] = [calls(("demo.count", {"name": "in a chat"})), says("It was counted.")]
    room = await _enter(scene)
    await person.press(page.locator(".composer summary"))
    await person.tick(page.get_by_label("demo.count"))
    await room.write("Count one, please.")
    card = page.locator(".question", has_text="Approve demo.count?").last
    await card.get_by_role("button", name="Approve").wait_for()
    await person.check()
    person.steps = 0
    await person.press(card.get_by_role("button", name="Approve"))
    await expect(room.answers.last).to_contain_text("It was counted.")
    await expect(card).to_contain_text("approved")


async def approve_nothing_inside_a_chat(scene: Scene) -> None:
    page = scene.person.page
    scene.upstream.script[:] = [calls(("demo.count", {"name": "not in a chat"}))]
    room = await _enter(scene)
    await scene.person.press(page.locator(".composer summary"))
    await scene.person.tick(page.get_by_label("demo.count"))
    await room.write("Count one, please.")
    card = page.locator(".question", has_text="Approve demo.count?").last
    await expect(card).to_contain_text("An admin of the workspace has to decide.")
    await expect(card.get_by_role("button")).to_have_count(0)
    approvals = scene.server.services[Approvals]
    waiting = [
        each
        for each in (await approvals.pending(scene.server.owner)).items
        if each.invocation.arguments == {"name": "not in a chat"}
    ]
    assert len(waiting) == 1
    forced = await scene.forced.post(f"/api/approvals/{waiting[0].approval.id}", json={"decision": "approve"})
    assert forced.status_code == 403, forced.text
    still = await approvals.get(scene.server.owner, waiting[0].approval.id)
    assert still.approval.state == "pending"


async def see_why_a_session_failed(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    await person.open("/")
    await person.press(page.locator("#overview").get_by_role("link", name=re.compile("^mender")).first)
    await page.get_by_role("heading", name="What went wrong").wait_for()
    await expect(page.locator("main")).to_contain_text("It used more than 2,000,000 tokens.")


async def see_a_proof_of_a_case(scene: Scene) -> None:
    page, person = scene.person.page, scene.person
    cases = scene.server.services[CaseService]
    case = (await cases.page(scene.server.owner, scene.server.start.workspace_id)).items[0]
    await person.open(f"/w/default/cases/{case.id}")
    output = page.get_by_role("link", name="Statement")
    await expect(output).to_be_hidden()
    await person.press(page.get_by_role("link", name="Proof 1"))
    await expect(output).to_be_visible()


FLOWS = (
    Flow("find and correct a memory", correct_a_memory, 2),
    Flow("settle a contradiction", settle_a_contradiction, 2),
    Flow("mint and rotate a key", mint_and_rotate_a_key, 2, ADMINS, mint_no_key),
    Flow("set a secret", set_a_secret, 1, OF_THE_WORKSPACE, set_no_secret),
    Flow("ask a repository and open the cited lines", open_cited_lines, 1),
    Flow("compare two versions", compare_two_versions, 1),
    Flow("chat with tools and a question", chat_with_tools_and_a_question, 2),
    Flow("find an old chat by its words", find_an_old_chat, 1),
    Flow("approve a call", approve_a_call, 2, OF_THE_WORKSPACE, approve_nothing),
    Flow("approve inside a chat", approve_inside_a_chat, 1, OF_THE_WORKSPACE, approve_nothing_inside_a_chat),
    Flow("why a session failed", see_why_a_session_failed, 1),
    Flow("from a case to its proof", see_a_proof_of_a_case, 1),
)
