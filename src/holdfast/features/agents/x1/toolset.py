"""Owns `x1agent` behind its socket: the 25 tools run by a gateway of their own, each call kept like any other."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from holdfast.core.errors import Forbidden, HoldfastError
from holdfast.core.text import jsontext
from holdfast.core.tools.gateway import Gateway, ToolUnknown
from holdfast.core.tools.tool import ToolCall
from holdfast.engines.mcp_client.base import TellProgress
from holdfast.engines.runners.protocols.speech import plain
from holdfast.features.agents.gate.base import GatedSession, SessionActions
from holdfast.features.agents.gate.records import CallRecords, GateCall
from holdfast.features.agents.gate.toolset import error_result
from holdfast.features.agents.x1.base import CONSUMER, X1Turn
from holdfast.features.secrets.masking import SecretMask

INSTRUCTIONS = (
    "Tell people how it goes with emit_status, hand over results with emit_artifact or share, and ask with "
    "request_input what you cannot find out. A tool that answers permission_required needs request_grant first; then "
    "call it again. When the work is done, call end_session."
)
_SIGN_OF_LIFE_SECONDS = 10.0
_CALL_BYTES = 500
"""What is kept of a call, whatever it says."""
_AS_IT_IS = frozenset({"content", "path"})
"""What is in an artifact, and a file's name: anything else is read by people, and acts on no terminal or page."""


class BuiltInServer:
    """`x1agent` of one session."""

    def __init__(
        self,
        gateway: Gateway,
        session: GatedSession,
        actions: Callable[[], SessionActions],
        records: CallRecords,
        mask: SecretMask,
    ) -> None:
        self._gateway = gateway
        self._session = session
        self._actions = actions
        self._records = records
        self._mask = mask

    @property
    def name(self) -> str:
        return CONSUMER

    @property
    def instructions(self) -> str:
        return INSTRUCTIONS

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self._gateway.listed(CONSUMER))

    async def tools(self) -> Sequence[Mapping[str, Any]]:
        return [tool.described() for tool in self._gateway.listed(CONSUMER)]

    async def call(self, tool: str, arguments: Mapping[str, Any], progress: TellProgress) -> Mapping[str, Any]:
        if tool not in self._names:
            # A name of its own making is kept nowhere.
            raise ToolUnknown(tool)
        # What it says here is kept and read by others, whichever tool it is. A secret may be spelled with controls.
        spoken = {name: each if name in _AS_IT_IS else _plain(each) for name, each in arguments.items()}
        arguments = self._mask.value(spoken)
        call = GateCall(self.name, tool, arguments)
        self._session.keep(_CALL_BYTES + len(jsontext.dumps(arguments)))
        began = time.perf_counter()
        alive = asyncio.create_task(_tell_of_life(progress))
        try:
            call.result = await self._run(tool, arguments)
            call.status = "succeeded"
        except HoldfastError as problem:
            call.status = "denied" if isinstance(problem, Forbidden) else "failed"
            call.result = error_result(problem)
        finally:
            alive.cancel()
            call.seconds = time.perf_counter() - began
            await self._records.keep(self._session, call, self._mask)
        return call.result

    async def _run(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        session = self._session
        call = ToolCall(
            session.principal,
            session.workspace_id,
            CONSUMER,
            session_id=session.id,
            turn=X1Turn(session, self._actions(), self._mask),
        )
        outcome = await self._gateway.call(call, tool, arguments)
        return {"content": [{"type": "text", "text": outcome.text}], "structuredContent": outcome.data}


def _plain(value: Any) -> Any:
    """Like what its runner says: without control characters and turns of direction."""
    if isinstance(value, str):
        return plain(value, len(value))
    if isinstance(value, Mapping):
        return {plain(name, len(name)): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


async def _tell_of_life(progress: TellProgress) -> None:
    """Clients give up on a call that they hear nothing of; a person may take hours."""
    told = 0
    while True:
        await asyncio.sleep(_SIGN_OF_LIFE_SECONDS)
        told += 1
        await progress(told, None, "still waiting")
