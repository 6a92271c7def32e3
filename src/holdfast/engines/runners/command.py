"""Owns running any program as an agent: one that speaks ACP, or our own lines of JSON."""

from collections.abc import Sequence

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runners.base import HOME, Assignment, Driving, LaunchPlan
from holdfast.engines.runners.protocols.acp import AcpConversation, initialize_message
from holdfast.engines.runners.protocols.conversation import first_answer
from holdfast.engines.runners.protocols.line_json import LineJsonConversation
from holdfast.engines.runners.protocols.speech import JsonLines
from holdfast.engines.runners.surroundings import surroundings
from holdfast.engines.runtime.base import Running

_PROTOCOLS = ("acp", "line-json")


class CommandRunner:
    """A program of the machine or of the worktree; the first word of its command may say what it speaks."""

    name = "command"

    def __init__(self, command: Sequence[str]) -> None:
        words = tuple(command)
        self._protocol = words[0] if words and words[0] in _PROTOCOLS else None
        self._command = words[1:] if self._protocol else words
        if not self._command or not all(self._command):
            problem = "it must name a program, like ['acp', '/usr/bin/my-agent']; the first word may say what it speaks"
            raise Invalid(f"The agent can't be run: {problem}.", fields=[FieldError("command", problem)])

    def plan(self, assignment: Assignment) -> LaunchPlan:
        """What to start; whoever reads variables instead of the first message finds the model by these."""
        return LaunchPlan(
            command=self._command,
            env={
                **surroundings(HOME),
                "OPENAI_BASE_URL": f"{assignment.model_url}/v1",
                "OPENAI_API_KEY": assignment.model_key,
                "ANTHROPIC_BASE_URL": assignment.model_url,
                "ANTHROPIC_AUTH_TOKEN": assignment.model_key,
                "HOLDFAST_MODEL": assignment.model,
                **assignment.env,
            },
        )

    async def drive(self, running: Running, assignment: Assignment) -> Driving:
        """Begin the conversation, in whichever protocol the first answer is."""
        lines = JsonLines("The agent's program", running)
        if self._protocol == "line-json":
            return LineJsonConversation(lines, assignment)
        lines.write(initialize_message())
        answer = await first_answer(lines, "initialize")
        if self._protocol is None and answer.get("type") == "ready":
            return LineJsonConversation(lines, assignment)
        conversation = AcpConversation(lines, assignment)
        await conversation.open(answer)
        return conversation
