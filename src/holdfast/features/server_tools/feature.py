"""What tools of the server's own add: calculation, research on the web, code on GitHub and GitLab."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="server_tools",
    services=("ResearchBudget",),
    tools=True,
    aliases=True,
    contract=("XM-8", "XS-5", "XS-T1", "XS-T2", "XS-T3", "XS-T4", "XS-T5"),
)
