"""Owns what each tool of chats asks of whoever's turn it is: the same as its MCP twin."""

from holdfast.core.access import READ, RUN, RUN_INTEL, WRITE, WRITE_INTEL, Access
from holdfast.core.principal import Principal

CHAT_TOOLS: dict[str, Access] = {
    "web_search": RUN,
    "fetch_url": RUN,
    "code_search": RUN_INTEL,
    "gitlab_code_search": RUN_INTEL,
    "calculator": RUN,
    "create_artifact": WRITE_INTEL,
    "update_artifact": WRITE_INTEL,
    "ask_user": RUN,
    "save_memory": WRITE,
    "recall_memory": READ,
    "file_search": READ,
}
# Its report is an artifact, and it reads code.
DEEP_THINK = RUN_INTEL


def open_to(principal: Principal) -> frozenset[str]:
    """The names of the tools that this principal's turns may use."""
    return frozenset(name for name, access in CHAT_TOOLS.items() if access.missing(principal) is None)
