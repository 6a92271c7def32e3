"""Owns putting endpoints in front of scripted upstreams of either wire."""

from anthropic.types import Message

from holdfast.features.endpoints.model import EndpointUpstream
from tests.fakes.llm.messages import KEY as CLAUDE_KEY
from tests.fakes.llm.messages import FakeMessages
from tests.fakes.llm.model import KEY as MODEL_KEY
from tests.fakes.llm.model import FakeModel
from tests.support.server import TestServer


async def put(server: TestServer, name: str, *upstreams: EndpointUpstream) -> None:
    """An endpoint in front of upstreams, whose keys are set."""
    services, workspace_id = server.services, server.start.workspace_id
    await services.secrets.set(server.owner, workspace_id, "MODEL_KEY", MODEL_KEY)
    await services.secrets.set(server.owner, workspace_id, "CLAUDE_KEY", CLAUDE_KEY)
    await services.endpoints.put(server.owner, server.start.project_id, name, list(upstreams))


def base_url(server: TestServer, name: str) -> str:
    """What ANTHROPIC_BASE_URL is set to."""
    return f"{server.url}/{server.start.project_id}/{name}"


def texts(message: Message) -> list[str]:
    """What an answer says, block by block."""
    return [block.text for block in message.content if block.type == "text"]


def of_openai(upstream: FakeModel, priority: int = 0) -> EndpointUpstream:
    """An upstream of OpenAI's wire."""
    return EndpointUpstream(base_url=upstream.url, model="fake-model", key_secret="MODEL_KEY", priority=priority)


def of_anthropic(upstream: FakeMessages, priority: int = 0) -> EndpointUpstream:
    """An upstream of Anthropic's own wire."""
    return EndpointUpstream(
        base_url=upstream.url, model="claude-fake", kind="anthropic", key_secret="CLAUDE_KEY", priority=priority
    )
