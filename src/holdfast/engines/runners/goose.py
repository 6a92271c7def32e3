"""Owns goose: what it is started with; it speaks ACP."""

from urllib.parse import urlsplit

from holdfast.engines.runners.base import HOME, Assignment, Driving, LaunchPlan
from holdfast.engines.runners.installing import InstalledAgents
from holdfast.engines.runners.protocols.acp import AcpConversation, initialize_message
from holdfast.engines.runners.protocols.conversation import first_answer
from holdfast.engines.runners.protocols.speech import JsonLines
from holdfast.engines.runners.surroundings import FOREVER_SECONDS, surroundings
from holdfast.engines.runtime.base import Running


class GooseRunner:
    """goose, unchanged."""

    name = "goose"

    def __init__(self, agents: InstalledAgents) -> None:
        self._agents = agents

    def plan(self, assignment: Assignment) -> LaunchPlan:
        """What to start; RunnerMissing where it is not installed."""
        agent = self._agents.find(self.name)
        url = urlsplit(assignment.model_url)
        return LaunchPlan(
            command=(agent.program, "acp", "--with-builtin", "developer"),
            env={
                **surroundings(HOME),
                "GOOSE_PATH_ROOT": f"{HOME}/.goose",
                "GOOSE_PROVIDER": "openai",
                "GOOSE_MODEL": assignment.model,
                "OPENAI_HOST": f"{url.scheme}://{url.netloc}",
                "OPENAI_BASE_PATH": f"{url.path.lstrip('/')}/v1/chat/completions".lstrip("/"),
                "OPENAI_API_KEY": assignment.model_key,
                # What it may do is decided by the sandbox and the gate.
                "GOOSE_MODE": "auto",
                "GOOSE_DISABLE_KEYRING": "1",
                "GOOSE_TELEMETRY_OFF": "1",
                "GOOSE_DEFAULT_EXTENSION_TIMEOUT": str(FOREVER_SECONDS),
                **assignment.env,
            },
            mounts=(agent.mount,),
            least_memory_bytes=512 << 20,
        )

    async def drive(self, running: Running, assignment: Assignment) -> Driving:
        """Begin the conversation."""
        lines = JsonLines("goose", running)
        lines.write(initialize_message())
        conversation = AcpConversation(lines, assignment)
        await conversation.open(await first_answer(lines, "initialize"))
        return conversation
