"""Owns asking the project's model to write an analysis, where the project has one."""

import asyncio
from contextlib import aclosing

from holdfast.core.errors import UpstreamFailed
from holdfast.core.principal import Principal
from holdfast.engines.llm.budget import CHARACTERS_PER_TOKEN
from holdfast.engines.llm.metering import Metered
from holdfast.engines.llm.model import Json
from holdfast.features.endpoints.model import DEFAULT
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.secrets.model import SecretNotSet
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces.service import Workspaces

SECONDS = 70.0
OPERATION = "analyze"


class Writer:
    """Asks the model behind the `default` endpoint of a workspace's project."""

    def __init__(self, workspaces: Workspaces, models: EndpointModels, usage: Usage, *, weekly_tokens: int) -> None:
        self._workspaces = workspaces
        self._models = models
        self._usage = usage
        self._weekly_tokens = weekly_tokens

    async def write(self, principal: Principal, workspace_id: str, prompt: str, most_tokens: int) -> str:
        """What the model wrote; "" where the embedded model answers or the upstream's key is missing."""
        project_id = (await self._workspaces.get(principal, workspace_id)).project_id
        try:
            connected = await self._models.connect(project_id, DEFAULT)
        except SecretNotSet:
            return ""
        if connected.upstreams is None:
            return ""
        await self._usage.check_budget(principal, self._weekly_tokens)
        model = Metered(connected.upstreams)
        pieces: list[str] = []
        try:
            async with asyncio.timeout(SECONDS), aclosing(model.stream(_asked(prompt))) as chunks:
                async for chunk in chunks:
                    pieces += [
                        (choice.get("delta") or {}).get("content") or "" for choice in chunk.get("choices") or ()
                    ]
                    if sum(map(len, pieces)) > most_tokens * CHARACTERS_PER_TOKEN:
                        break
        except TimeoutError:
            raise UpstreamFailed(f"The model took over {SECONDS:g} seconds.") from None
        finally:
            # Also when whoever asked has gone: what was used is used.
            tokens_in, tokens_out = model.tally.input_tokens, model.tally.output_tokens
            self._usage.log(
                principal,
                source="intelligence",
                operation=OPERATION,
                model=model.name,
                tokens_in=tokens_in,
                tokens_out=tokens_out,
                cost=connected.endpoint.cost(model.name, tokens_in, tokens_out),
                workspace_id=workspace_id,
                project_id=project_id,
            )
        return "".join(pieces)


def _asked(prompt: str) -> Json:
    # No limit in the request: models that think first take one for their thoughts, and some refuse it.
    return {"messages": [{"role": "user", "content": prompt}]}
