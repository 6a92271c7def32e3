"""Owns the three ways to use a code host: search its code, review a repository, browse its files."""

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.code_hosts.model import MAX_PATHS, CodeHost, Hits, Overview, Read

RESULTS = 5
MAX_QUERY = 256


class CodeSearch:
    """One code host behind the three modes."""

    def __init__(self, host: CodeHost) -> None:
        self.host = host

    async def search(self, query: str, *, language: str | None = None, max_results: int = RESULTS) -> Hits:
        """Files that match, with the whole content of the first three."""
        asked = " ".join(query.split())
        if not 1 <= len(asked) <= MAX_QUERY:
            raise _invalid("query", f"a query has 1 to {MAX_QUERY} characters; this one has {len(asked)}")
        if not 1 <= max_results <= self.host.max_results:
            raise _invalid("max_results", f"ask for 1 to {self.host.max_results} results")
        if language is not None and not language.replace("-", "").replace("+", "").replace("#", "").isalnum():
            raise _invalid("language", f"{language[:50]!r} is not the name of a language")
        return await self.host.search(asked, language=language, max_results=max_results)

    async def overview(self, repository: str) -> Overview:
        """A repository at a glance."""
        return await self.host.overview(repository)

    async def read(self, repository: str, paths: tuple[str, ...], *, ref: str | None = None) -> list[Read]:
        """Files or directories of a repository."""
        if not 1 <= len(paths) <= MAX_PATHS:
            raise _invalid("paths", f"give 1 to {MAX_PATHS} paths; there are {len(paths)}")
        return await self.host.read(repository, paths, ref=ref)


def _invalid(field: str, problem: str) -> Invalid:
    return Invalid("The request is not right.", fields=[FieldError(field, problem)])
