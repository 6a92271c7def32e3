"""Owns what a failed clone is told to a person: what happened, in plain words, and what to do."""

from holdfast.core.errors import HoldfastError
from holdfast.engines.git.model import GitFailed

_TEXTS = {
    "unauthorized": "{host} asks for a login: the repository is private, or it does not exist. "
    "Check the address; for a private repository put a token that may read it into a secret and name it (--key-from).",
    "token_refused": "{host} refused the token: it is wrong, expired, or may not read this repository. "
    "Put another one with read access into the secret; where the server wants a user name, write user:token.",
    "not_found": "{host} has no repository at this address, or hides it. Check the address; "
    "for a private repository put a token that may read it into a secret and name it (--key-from).",
    "not_a_repository": "{host} does not answer like a git server at this address. "
    "Give the address that `git clone` takes, often one that ends in .git.",
    "tls": "The certificate of {host} can't be trusted: {why} "
    "If it is signed by your own authority, point SSL_CERT_FILE to that authority's certificate.",
    "too_large": "{why} Raise the limit, or clone it yourself with --depth and add the path.",
    "hostile": "{host} sent a pack that looks made to do harm, and nothing of it was kept. {why}",
    "too_slow": "{why} Try again later, or clone it yourself and add the path.",
    "no_space": "There is no space left for the clone. Free some, or choose another data directory.",
}
_SIGNS = (
    ("authentication", "token_refused"),
    ("status code: 401", "token_refused"),
    ("status code: 403", "token_refused"),
    ("status code: 404", "not_found"),
    ("not exported", "not_found"),
    ("certificate", "tls"),
    ("ssl", "tls"),
    ("file too large", "too_large"),
    ("overly large", "too_large"),
    ("out of memory", "too_large"),
    ("failed to allocate", "too_large"),
    ("no space left", "no_space"),
)


def remedied(problem: HoldfastError, host: str) -> GitFailed:
    """The failure in words that tell what to do."""
    why = problem.message.strip()
    code = problem.code
    if code in ("libgit2", "fetch_failed"):
        code = next((known for sign, known in _SIGNS if sign in why.lower()), "unreachable")
        if code == "too_large":
            why = "The repository unpacks to more than allowed."
        if code == "unreachable" and problem.code == "libgit2":
            why = f"The exchange with {host} broke off: {why.rstrip('.')}. Try again later."
    if code in ("blocked_address", "invalid_url"):
        return GitFailed(why, code="refused_address")
    text = _TEXTS.get(code)
    if text is None:
        return GitFailed(why or f"The repository at {host} could not be cloned.", code=code)
    return GitFailed(text.format(host=host, why=f"{why.rstrip('.')}." if why else ""), code=code)
