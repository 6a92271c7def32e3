"""What agents add to the server: definitions, sessions in sandboxes, and the way from a case to its agent."""

from holdfast.core.access import READ_EXEC
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="agents",
    commands={
        "agents": ("commands.agents:agents", "Agents: what they are, and what they may use."),
        "sessions": ("commands.sessions:sessions", "Agents at work."),
    },
    tools=True,
    operations=("operations.agents", "operations.sessions"),
    services=(
        "AgentActions",
        "AgentAttachments",
        "AgentDefinitions",
        "AgentSessions",
        "Casework",
        "Finishing",
        "Freezing",
        "LiveSessions",
        "SessionBase",
        "Gates",
        "SessionModels",
        "SessionRuns",
        "SessionTelling",
        "Worktrees",
    ),
    answers=("AgentIds",),
    jobs=("session.run", "session.tidy"),
    topics={"agent": Topic(READ_EXEC), "session": Topic(READ_EXEC)},
    migrations=("0042_agents", "0043_agent_sessions", "0070_first_page_indexes"),
    contract=("XA-1", "XA-5", "XA-6", "XA-11", "ZE-3"),
)
