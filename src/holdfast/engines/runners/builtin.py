"""Owns starting the built-in agent: our own program, in the same sandbox as every other."""

from pathlib import Path

from holdfast.engines.runners.base import HOME, Assignment, Driving, LaunchPlan
from holdfast.engines.runners.protocols.line_json import LineJsonConversation
from holdfast.engines.runners.protocols.speech import JsonLines
from holdfast.engines.runners.surroundings import surroundings
from holdfast.engines.runtime.base import Mounted, Running
from holdfast.engines.runtime.packages import python_mounts, python_program

_INSIDE = Path(__file__).with_name("inside")
_PLACE = "/opt/agent"
_PACKAGE = "holdfast/engines/runners/inside"
# The folders above it are none of ours in there, so that Python takes them for packages that may lie anywhere.
_BEGIN = f"import sys; sys.path.insert(0, {_PLACE!r}); from {_PACKAGE.replace('/', '.')}.main import main; main()"


class BuiltinRunner:
    """The agent that is always there."""

    name = "builtin"

    def plan(self, assignment: Assignment) -> LaunchPlan:
        """What to start."""
        return LaunchPlan(
            command=(python_program(), "-I", "-S", "-B", "-c", _BEGIN),
            env={**surroundings(HOME), **assignment.env},
            mounts=(*python_mounts(), Mounted(_INSIDE, f"{_PLACE}/{_PACKAGE}")),
            least_memory_bytes=64 << 20,
        )

    async def drive(self, running: Running, assignment: Assignment) -> Driving:
        """Begin the conversation."""
        return LineJsonConversation(JsonLines("The built-in agent", running), assignment)
