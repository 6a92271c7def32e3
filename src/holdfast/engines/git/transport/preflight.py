"""Owns finding out where a clone will really go: redirects are followed and checked one by one before it begins."""

import base64
import ssl

from holdfast.core.errors import HoldfastError
from holdfast.engines.fetch.network.addresses import Exceptions
from holdfast.engines.fetch.network.connect import Blocked
from holdfast.engines.fetch.network.guard import FetchFailed, FetchLimits, FetchReply, Guard
from holdfast.engines.fetch.network.url import BadUrl, Url, parse_url
from holdfast.engines.git.model import Credentials, GitFailed
from holdfast.engines.git.transport.address import Location
from holdfast.engines.git.transport.remedies import remedied
from holdfast.engines.git.transport.tunnel import GIT_PORTS, CloneTarget, Rules

_QUESTION = "/info/refs?service=git-upload-pack"
_ANSWER = "application/x-git-upload-pack-advertisement"
_LIMITS = FetchLimits(bytes=4_096, seconds=60.0, connect_seconds=15.0)
_AGENT = "git/2.0 (Holdfast)"
_PORTS = {"http": 80, "https": 443, "git": 9418}


async def find_target(location: Location, credentials: Credentials | None, rules: Rules) -> CloneTarget:
    """Where to clone from; GitFailed when it is no repository that we may read."""
    check(location, rules)
    if location.scheme == "git":
        if credentials is not None:
            raise GitFailed("A token is never sent over git:// in clear; use https:// instead.", code="insecure")
        return CloneTarget("git", location.host, location.port or _PORTS["git"], location.path)
    return await _over_http(parse_url(location.text), credentials, rules)


def check(location: Location, rules: Rules) -> None:
    """Refuse a URL that could not be cloned wherever its name leads; GitFailed says why."""
    if location.is_local:
        return
    if location.scheme == "ssh":
        raise GitFailed(
            "Cloning over ssh needs a private key and known hosts, and Holdfast keeps neither. "
            f"Use https://{location.host}{location.path} with a token instead.",
            code="ssh_unsupported",
        )
    port = location.port or _PORTS[location.scheme]
    exceptions = Exceptions(rules.allow_private)
    if exceptions.name_known(location.host, port):
        return
    url = Url("http", location.host, port, "/")
    try:
        why = exceptions.refusal(location.host, port, [location.host])
    except ValueError:
        why = "a local name" if url.is_local_name and not exceptions.hold_networks else None
    if why is not None:
        raise GitFailed(Blocked(location.host, why).message, code="refused_address")
    if url.port_is_closed and port not in GIT_PORTS:
        raise GitFailed(f"Port {port} is not one that git servers use.", code="refused_address")


async def _over_http(url: Url, credentials: Credentials | None, rules: Rules) -> CloneTarget:
    # Over http a token goes only to this machine itself, where the operator let it be reached.
    allowed = Exceptions(rules.allow_private).name_known(url.host, url.port)
    if credentials is not None and url.scheme == "http" and not (url.place.is_loopback and allowed):
        raise GitFailed("A token is never sent over http:// in clear; use https:// instead.", code="insecure")

    async def same_place(hop: Url) -> None:
        if credentials is not None and hop.origin != url.origin:
            raise GitFailed(
                f"{url.host} redirects to {hop.host}, and a token for one host is never sent to another. "
                f"Use the address it redirects to: {_base(hop)}",
                code="redirected",
            )

    context = ssl.create_default_context(cafile=rules.ca_file or None)
    guard = Guard(allow_private=rules.allow_private, resolver=rules.resolver, ssl_context=context)
    try:
        reply = await guard.get(
            parse_url(str(url).removesuffix("/") + _QUESTION),
            headers={"user-agent": _AGENT, "accept": _ANSWER} | _authorization(credentials, url),
            limits=_LIMITS,
            before_hop=same_place,
        )
    except (FetchFailed, Blocked, BadUrl) as problem:
        raise remedied(problem, url.host) from None
    finally:
        await guard.aclose()
    _check(reply, credentials is not None)
    return CloneTarget(reply.url.scheme, reply.url.host, reply.url.port, _path(reply.url))


def _authorization(credentials: Credentials | None, url: Url) -> dict[str, str]:
    if credentials is None:
        return {}
    pair = f"{credentials.username or 'x-access-token'}:{credentials.token.sent_to(url.place)}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _check(reply: FetchReply, had_token: bool) -> None:
    host = reply.url.host
    problem: HoldfastError | None = None
    if reply.status in (401, 403):
        problem = GitFailed("", code="unauthorized" if not had_token else "token_refused")
    elif reply.status in (404, 410):
        problem = GitFailed("", code="not_found")
    elif reply.status != 200:
        problem = GitFailed(f"{host} answered with HTTP status {reply.status}.", code="unreachable")
    elif reply.content_type != _ANSWER or not reply.url.target.endswith(_QUESTION):
        problem = GitFailed("", code="not_a_repository")
    if problem is not None:
        raise remedied(problem, host)


def _path(url: Url) -> str:
    return url.target.removesuffix(_QUESTION) or "/"


def _base(url: Url) -> str:
    return f"{url.origin}{_path(url)}"
