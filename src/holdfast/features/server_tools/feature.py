"""What tools of the server's own add: calculation, research on the web, code on GitHub and GitLab."""

from holdfast.registry.feature import Feature

FEATURE = Feature(name="server_tools", services=("ResearchBudget",), tools=True, aliases=True)
