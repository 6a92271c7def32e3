"""Owns reading a repository's discussions from GitHub, which only its GraphQL API has."""

from collections.abc import AsyncGenerator
from typing import Any

from holdfast.core.errors import UpstreamFailed
from holdfast.engines.code_hosts.apis import Missing, SwitchedOff, github_api
from holdfast.engines.code_hosts.history import GHOST, MAX_REMARKS, HostItem, HostRemark, Known, moment, words
from holdfast.engines.code_hosts.patience import LISTING, Patience, PatientApi, Sleep
from holdfast.engines.fetch.network.api import too_often
from holdfast.engines.fetch.network.guard import Guard

_LIST = """query($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    hasDiscussionsEnabled
    discussions(first: 100, after: $after, orderBy: {field: UPDATED_AT, direction: DESC}) {
      pageInfo { hasNextPage endCursor }
      nodes { number updatedAt }
    }
  }
}"""
_ONE = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    discussion(number: $number) {
      number title body url createdAt updatedAt closed closedAt isAnswered
      author { __typename login }
      category { name }
      labels(first: 20) { nodes { name } }
      comments(first: 50, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          id body createdAt isAnswer
          author { __typename login }
          replies(first: 50) { nodes { id body createdAt author { __typename login } } }
        }
      }
    }
  }
}"""
# A token that may not see discussions, and a server that has none yet, mean the same to a reader.
_ABSENT = frozenset({"FORBIDDEN", "INSUFFICIENT_SCOPES", "undefinedField", "argumentNotAccepted"})


class GitHubDiscussions:
    """The discussions that one token may read."""

    def __init__(self, guard: Guard, *, token: str, base_url: str, patience: Patience, sleep: Sleep) -> None:
        # An Enterprise server has REST at /api/v3 and GraphQL beside it.
        base = base_url.rstrip("/")
        base = base.removesuffix("/v3") if base.endswith("/api/v3") else base
        host = github_api(guard, token=token, base_url=base, limits=LISTING)
        self._api = PatientApi(host, patience=patience, sleep=sleep)

    async def items(self, name: str, since: int | None, known: Known) -> AsyncGenerator[HostItem, None]:
        """Those that changed at `since` or later, the longest unchanged first."""
        for number, at in reversed(await self._changed(name, since)):
            if await known(str(number), at):
                continue
            item = await self._one(name, number)
            if item is not None:
                yield item

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._api.aclose()

    async def _changed(self, name: str, since: int | None) -> list[tuple[int, int]]:
        """GraphQL cannot be asked by moment: the newest first, until one is too old."""
        found: dict[int, int] = {}
        after: str | None = None
        while True:
            repository = await self._ask(_LIST, name, after=after)
            if not repository.get("hasDiscussionsEnabled"):
                return []
            listed = repository["discussions"]
            for node in listed["nodes"]:
                at = moment(node["updatedAt"]) or 0
                if since is not None and at < since:
                    return list(found.items())
                found.setdefault(node["number"], at)
            if not listed["pageInfo"]["hasNextPage"] or listed["pageInfo"]["endCursor"] == after:
                return list(found.items())
            after = listed["pageInfo"]["endCursor"]

    async def _one(self, name: str, number: int) -> HostItem | None:
        remarks: dict[str, HostRemark] = {}
        after: str | None = None
        while True:
            try:
                found = (await self._ask(_ONE, name, number=number, after=after)).get("discussion")
            except Missing:
                found = None
            if found is None:
                return None  # deleted since it was listed
            for comment in found["comments"]["nodes"]:
                remarks[comment["id"]] = _remark(comment)
                remarks |= {reply["id"]: _remark(reply) for reply in comment["replies"]["nodes"]}
            page = found["comments"]["pageInfo"]
            if not page["hasNextPage"] or page["endCursor"] == after or len(remarks) >= MAX_REMARKS:
                return _item(found, list(remarks.values()))
            after = page["endCursor"]

    async def _ask(self, query: str, name: str, **variables: Any) -> dict[str, Any]:
        owner, _, repository = name.partition("/")
        body = {"query": query, "variables": {"owner": owner, "name": repository, **variables}}
        return await self._api.post("/graphql", body, _checked)


def _checked(answer: Any) -> dict[str, Any]:
    """The repository in an answer; GraphQL reports its errors with a 200."""
    problems = answer.get("errors") or [] if isinstance(answer, dict) else []
    kinds = {problem.get("type") or (problem.get("extensions") or {}).get("code") for problem in problems}
    if "RATE_LIMITED" in kinds:
        raise too_often("GitHub", None)
    if kinds & _ABSENT:
        raise SwitchedOff("GitHub shows no discussions to this token.")
    repository = (answer.get("data") or {}).get("repository") if isinstance(answer, dict) else None
    if "NOT_FOUND" in kinds or (repository is None and not problems):
        raise Missing("GitHub resource", "repository")
    if repository is None or problems:
        said = problems[0].get("message") if problems else "nothing"
        raise UpstreamFailed(f"GitHub did not answer for its discussions: {words(said, 200)}")
    return dict(repository)


def _author(actor: Any) -> str:
    login = words(actor.get("login"), 200) if isinstance(actor, dict) else ""
    # REST calls a bot by its name and [bot]; GraphQL leaves that to the type.
    return f"{login}[bot]" if login and actor.get("__typename") == "Bot" else login or GHOST


def _remark(comment: dict[str, Any]) -> HostRemark:
    body = words(comment.get("body"))
    text = f"Answer: {body}" if comment.get("isAnswer") else body
    return HostRemark(_author(comment.get("author")), moment(comment.get("createdAt")) or 0, text)


def _item(found: dict[str, Any], remarks: list[HostRemark]) -> HostItem:
    category = words((found.get("category") or {}).get("name"), 200)
    labels = [words(label.get("name"), 200) for label in (found.get("labels") or {}).get("nodes") or []]
    created = moment(found["createdAt"]) or 0
    return HostItem(
        kind="discussion",
        number=str(found["number"]),
        title=words(found.get("title"), 1_000),
        body=words(found.get("body")),
        state="answered" if found.get("isAnswered") else "closed" if found.get("closed") else "open",
        author=_author(found.get("author")),
        url=words(found.get("url"), 2_000),
        created_at=created,
        updated_at=moment(found.get("updatedAt")) or created,
        closed_at=moment(found.get("closedAt")),
        labels=tuple(filter(None, [category, *labels])),
        remarks=tuple(sorted(remarks, key=lambda remark: remark.at)[:MAX_REMARKS]),
    )
