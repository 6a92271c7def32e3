"""Owns how a running tool asks the person behind the client: on the stream in one era, by a retry in the other."""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import orjson
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    INVALID_PARAMS,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from holdfast.core.text import jsontext
from holdfast.features.clients.service import Clients

logger = logging.getLogger(__name__)

STATE_SECONDS = 600.0
ANSWER_SECONDS = 300.0
"""How long a client may take to ask its user or its model."""
SAMPLE_TOKENS = 200

_T = TypeVar("_T")
_Result = TypeVar("_Result", bound=BaseModel)

Context = ServerRequestContext[Any, Any]


class InputNeeded(Exception):
    """The tool cannot go on without an answer: the client gets the question and asks again with the answer."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("input needed")
        self.result = result


def asker(
    ctx: Context, clients: Clients, responses: Mapping[str, Any] | None, state: str | None
) -> "Retrying | Direct":
    """The way to ask that this request's era has."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return Direct(ctx)

    async def answered() -> dict[str, Any]:
        return {} if state is None else await _redeem(clients, responses or {}, state)

    return Retrying(ctx, answered)


async def _redeem(clients: Clients, responses: Mapping[str, Any], state: str) -> dict[str, Any]:
    """The answers to questions that we asked, earlier ones included; a state is good for one retry."""
    known = orjson.loads(state)
    if not await clients.spend(str(known["nonce"]), STATE_SECONDS):
        logger.warning("a spent requestState was sent again")
        raise MCPError(
            code=INVALID_PARAMS,
            message="Invalid or expired requestState",
            data={"reason": "invalid_request_state"},
        )
    answered = dict(known["answered"])
    question = str(known["question"])
    given = responses.get(question)
    if given is not None:
        answered[question] = given if isinstance(given, dict) else given.model_dump(mode="json", by_alias=True)
    return answered


class Direct:
    """Asks while the tool waits, on the stream of the call. The handshake era can."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def __call__(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """The person's answer, or None when they declined or the client cannot ask."""
        if not _can_ask(self._ctx.session.client_capabilities):
            return None
        result = await self._tried(self._ctx.session.elicit_form(message, schema, self._ctx.request_id))
        return dict(result.content or {}) if result is not None and result.action == "accept" else None

    async def send_to_page(self, message: str, url: str) -> bool:
        """Whether the client says that the person went there."""
        if not _can_send(self._ctx.session.client_capabilities):
            return False
        id = _digest(["url", url])
        result = await self._tried(self._ctx.session.elicit_url(message, url, id, self._ctx.request_id))
        return result is not None and result.action == "accept"

    async def ask_model(self, question: str) -> str | None:
        """What the client's own model said."""
        if not _can_sample(self._ctx.session.client_capabilities):
            return None
        metadata = ServerMessageMetadata(related_request_id=self._ctx.request_id)
        asked = self._ctx.session.send_request(_sampling(question), CreateMessageResult, metadata=metadata)
        return _text(await self._tried(asked))

    async def _tried(self, asked: Awaitable[_T]) -> _T | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asked
        except (MCPError, NoBackChannelError, ValidationError, TimeoutError) as error:
            logger.info("the client could not ask its user or its model: %s", error)
            return None


class Retrying:
    """Asks by ending the call with a question. The client retries with the answer, and the tool runs again."""

    def __init__(self, ctx: Context, redeem: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._ctx = ctx
        self._redeem = redeem
        self._answered: dict[str, Any] | None = None

    async def __call__(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """The person's answer if this is the retry that carries it; else the call ends here with InputNeeded."""
        if not _can_ask(self._ctx.session.client_capabilities):
            return None
        request = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))
        result = await self._answer(_digest([message, schema]), request, ElicitResult)
        return dict(result.content or {}) if result.action == "accept" else None

    async def send_to_page(self, message: str, url: str) -> bool:
        """Whether this is the retry that says that the person went there; else the call ends here with the link."""
        if not _can_send(self._ctx.session.client_capabilities):
            return False
        request = ElicitRequest(params=ElicitRequestURLParams(message=message, url=url))
        return (await self._answer(_digest(["url", url]), request, ElicitResult)).action == "accept"

    async def ask_model(self, question: str) -> str | None:
        """What the client's own model said, if this is the retry that carries it."""
        if not _can_sample(self._ctx.session.client_capabilities):
            return None
        return _text(await self._answer(_digest(["model", question]), _sampling(question), CreateMessageResult))

    async def _answer(
        self, question: str, request: ElicitRequest | CreateMessageRequest, kind: type[_Result]
    ) -> _Result:
        if self._answered is None:
            # Once, and only by a tool that asks: a state is good for one retry.
            self._answered = await self._redeem()
        given = self._answered.get(question)
        if given is None:
            state = {"nonce": secrets.token_hex(16), "question": question, "answered": self._answered}
            raise InputNeeded(
                InputRequiredResult(input_requests={question: request}, request_state=jsontext.dumps(state).decode())
            )
        try:
            return kind.model_validate(given, by_name=False)
        except ValidationError:
            raise MCPError(code=INVALID_PARAMS, message=f"inputResponses.{question} is not an answer to it") from None


def _digest(asked: Any) -> str:
    return "q" + hashlib.sha256(jsontext.dumps(asked)).hexdigest()[:16]


def _sampling(question: str) -> CreateMessageRequest:
    said = SamplingMessage(role="user", content=TextContent(type="text", text=question))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[said], max_tokens=SAMPLE_TOKENS))


def _text(result: Any) -> str | None:
    content = getattr(result, "content", None)
    return content.text if isinstance(content, TextContent) else None


def _can_ask(capabilities: ClientCapabilities | None) -> bool:
    return capabilities is not None and capabilities.elicitation is not None


def _can_send(capabilities: ClientCapabilities | None) -> bool:
    return (
        capabilities is not None and capabilities.elicitation is not None and capabilities.elicitation.url is not None
    )


def _can_sample(capabilities: ClientCapabilities | None) -> bool:
    return capabilities is not None and capabilities.sampling is not None
