"""Owns what the vendors of known clients document that they support, to show beside what was declared here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DocumentedClient:
    """One client: whether it shows tools, prompts and resources, and what it lets a server ask for."""

    client: str
    """The name of its bundle."""
    title: str
    names: tuple[str, ...]
    """The names it gives itself when it connects."""
    tools: str
    prompts: str
    resources: str
    sampling: str
    elicitation: str
    roots: str


DOCUMENTED = (
    DocumentedClient(
        "claude-code", "Claude Code", ("claude-code",), "yes", "yes (slash)", "yes (@)", "no", "yes", "yes"
    ),
    DocumentedClient("opencode", "opencode", ("opencode",), "yes", "yes (slash)", "yes (@)", "no", "no", "no"),
    DocumentedClient("cursor", "Cursor", ("cursor-vscode", "cursor"), "yes", "yes (@)", "no", "no", "yes", "yes"),
    DocumentedClient(
        "vscode",
        "VS Code Copilot",
        ("Visual Studio Code", "Visual Studio Code - Insiders"),
        "yes",
        "yes (slash)",
        "yes (@)",
        "yes",
        "yes",
        "yes",
    ),
    DocumentedClient("claude-desktop", "Claude Desktop", ("claude-ai",), "yes", "yes", "yes (@)", "no", "no", "yes"),
    DocumentedClient("codex", "OpenAI Codex", ("codex-mcp-client",), "yes", "no", "yes (@)", "no", "yes", "no"),
)
