"""What governed execution adds to the server: calls of enrolled tools, who decides about them, and grants."""

from holdfast.core.access import READ_EXEC
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="execution",
    commands={
        "exec": ("commands.running:exec_tool", "Run a tool of the catalog."),
        "approvals": ("commands.approving:approvals", "Calls that wait for a person."),
    },
    tools=True,
    operations=("operations.invocations", "operations.approvals", "operations.grants"),
    services=(
        "Announcements",
        "ApprovalExpiry",
        "Approvals",
        "Calls",
        "Deciding",
        "Endings",
        "EnrolledCatalog",
        "Execution",
        "ExecutionSettings",
        "Grants",
        "ImmediateCalls",
        "Runs",
    ),
    jobs=("approval.announce", "invocation.run"),
    background_once=("ApprovalExpiry",),
    topics={"invocation": Topic(READ_EXEC), "approval": Topic(READ_EXEC), "grant": Topic(READ_EXEC)},
    migrations=("0036_execution",),
    contract=("XM-9", "XM-11", "XM-12", "XM-13", "XM-14", "XM-15", "XA-7", "XA-9"),
)
