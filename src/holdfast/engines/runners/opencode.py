"""Owns opencode: what it is started with; it speaks ACP."""

import json
from typing import Any

from holdfast.engines.runners.base import HOME, Assignment, Driving, LaunchPlan
from holdfast.engines.runners.installing import InstalledAgents
from holdfast.engines.runners.protocols.acp import AcpConversation, initialize_message
from holdfast.engines.runners.protocols.conversation import first_answer
from holdfast.engines.runners.protocols.speech import JsonLines
from holdfast.engines.runners.surroundings import FOREVER_SECONDS, surroundings
from holdfast.engines.runtime.base import Running

_INSTRUCTIONS = ".holdfast/instructions.md"
_KEY = "HOLDFAST_MODEL_KEY"
_FOLDERS = {"DATA": "share", "CONFIG": "config", "STATE": "state", "CACHE": "cache"}


class OpencodeRunner:
    """opencode, unchanged."""

    name = "opencode"

    def __init__(self, agents: InstalledAgents) -> None:
        self._agents = agents

    def plan(self, assignment: Assignment) -> LaunchPlan:
        """What to start; RunnerMissing where it is not installed."""
        agent = self._agents.find(self.name)
        return LaunchPlan(
            command=(agent.program, "acp"),
            env={
                **surroundings(HOME),
                **{f"XDG_{name}_HOME": f"{HOME}/.{folder}" for name, folder in _FOLDERS.items()},
                "OPENCODE_CONFIG_CONTENT": json.dumps(_config(assignment)),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                # Settings of the worktree are its author's, and so are programs that it would start for them.
                "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
                _KEY: assignment.model_key,
                **assignment.env,
            },
            mounts=(agent.mount,),
            home_files={_INSTRUCTIONS: assignment.instructions.encode()},
            # Its runtime reserves two gigabytes before it does anything.
            least_memory_bytes=4 << 30,
        )

    async def drive(self, running: Running, assignment: Assignment) -> Driving:
        """Begin the conversation."""
        lines = JsonLines("opencode", running)
        lines.write(initialize_message())
        conversation = AcpConversation(lines, assignment, instructs=False)
        await conversation.open(await first_answer(lines, "initialize"))
        return conversation


def _config(assignment: Assignment) -> dict[str, Any]:
    options = {"baseURL": f"{assignment.model_url}/v1", "apiKey": f"{{env:{_KEY}}}", "timeout": False}
    model = {"name": assignment.model, "tool_call": True}
    return {
        "provider": {
            "holdfast": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Holdfast",
                "options": options,
                "models": {assignment.model: model},
            }
        },
        "enabled_providers": ["holdfast"],
        "model": f"holdfast/{assignment.model}",
        "small_model": f"holdfast/{assignment.model}",
        "instructions": [f"{HOME}/{_INSTRUCTIONS}"],
        # What it may do is decided by the sandbox and the gate.
        "permission": {"*": "allow"},
        "experimental": {"mcp_timeout": FOREVER_SECONDS * 1000},
        "autoupdate": False,
        "share": "disabled",
    }
