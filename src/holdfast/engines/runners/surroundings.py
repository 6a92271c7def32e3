"""Owns the environment that every agent gets: a home, and git that asks nobody and reads nobody's settings."""

FOREVER_SECONDS = 7 * 24 * 3_600
"""How long an agent waits for a tool: some tools wait for a person. The session has its own limit of time."""
# A pod's directories are root's, whom git would not trust; nobody but us and the agent was ever in them.
TRUSTED_DIRECTORIES = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
_NAME = "Holdfast agent"
_MAIL = "agent@holdfast.invalid"


def surroundings(home: str) -> dict[str, str]:
    """Variables for any agent; an assignment's own come after them."""
    return {
        "HOME": home,
        "GIT_AUTHOR_NAME": _NAME,
        "GIT_AUTHOR_EMAIL": _MAIL,
        "GIT_COMMITTER_NAME": _NAME,
        "GIT_COMMITTER_EMAIL": _MAIL,
        "GIT_CONFIG_NOSYSTEM": "1",
        **TRUSTED_DIRECTORIES,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "true",
        "GIT_PAGER": "cat",
        "PAGER": "cat",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
