"""Owns how a running tool asks the person behind the client: on the stream in one era, by a retry in the other."""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import (
    INVALID_PARAMS,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from holdfast.core.text import jsontext
from holdfast.features.clients.service import Clients

logger = logging.getLogger(__name__)

STATE_SECONDS = 600.0

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
        try:
            result = await self._ctx.session.elicit_form(message, schema, self._ctx.request_id)
        except (MCPError, NoBackChannelError, ValidationError) as error:
            logger.info("the client could not ask its user: %s", error)
            return None
        return dict(result.content or {}) if result.action == "accept" else None


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
        question = "q" + hashlib.sha256(jsontext.dumps([message, schema])).hexdigest()[:16]
        if self._answered is None:
            # Once, and only by a tool that asks: a state is good for one retry.
            self._answered = await self._redeem()
        given = self._answered.get(question)
        if given is None:
            raise InputNeeded(self._question(question, message, schema, self._answered))
        try:
            result = ElicitResult.model_validate(given, by_name=False)
        except ValidationError:
            raise MCPError(code=INVALID_PARAMS, message=f"inputResponses.{question} is not an answer to it") from None
        return dict(result.content or {}) if result.action == "accept" else None

    @staticmethod
    def _question(question: str, message: str, schema: dict[str, Any], answered: dict[str, Any]) -> InputRequiredResult:
        state = {"nonce": secrets.token_hex(16), "question": question, "answered": answered}
        params = ElicitRequestFormParams(message=message, requested_schema=schema)
        return InputRequiredResult(
            input_requests={question: ElicitRequest(params=params)}, request_state=jsontext.dumps(state).decode()
        )


def _can_ask(capabilities: ClientCapabilities | None) -> bool:
    return capabilities is not None and capabilities.elicitation is not None
