"""Owns how a repository is reached: where it is, and which token may be shown to the server that it is on."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from holdfast.core.credential import Credential
from holdfast.engines.git.model import Credentials
from holdfast.engines.git.transport.address import Location, parse_location
from holdfast.features.repositories.hosts.apis import api_of, host_of
from holdfast.features.repositories.model import Repository
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database, Tx

_USERS = {"github": "x-access-token", "gitlab": "oauth2"}
"""What a host wants to read as user name beside a token."""


class RepositoryTokens:
    """The tokens of repositories: a secret of their workspace, or the operator's for the operator's own hosts."""

    def __init__(
        self,
        database: Database,
        secrets: Secrets,
        *,
        host_urls: Mapping[str, str] = {},
        host_tokens: Mapping[str, str | None] = {},
    ) -> None:
        """`host_urls` are the configured APIs by host, `host_tokens` the operator's tokens for them."""
        self._database = database
        self._secrets = secrets
        self._urls = dict(host_urls)
        self._tokens = {host: token for host, token in host_tokens.items() if token}

    @property
    def host_urls(self) -> Mapping[str, str]:
        """The configured APIs by host."""
        return self._urls

    async def of(self, repository: Repository) -> tuple[Location, Credentials | None]:
        """Where a repository is and how to prove ourselves there."""
        location = parse_location(repository.location)
        if location.is_local:
            return location, None
        token = await self._database.read(lambda tx: self.token(tx, repository, location))
        if token is None:
            return location, None
        user, token = user_and_token(token)
        return location, Credentials(user or location.username or _USERS.get(repository.host, "git"), token)

    def token(self, tx: Tx, repository: Repository, location: Location) -> Credential | None:
        """The token for a repository's host; the operator's own is for the hosts that the operator named, no other."""
        if repository.key_from is not None:
            return self._secrets.reveal(tx, repository.workspace_id, repository.key_from, location.place)
        host, _ = host_of(location, None, self._urls)
        url = self._urls.get(host, "")
        # An Enterprise server's token is not for the public host of the same kind.
        if not host or api_of(location.text, host, self._urls) != url:
            return None
        if location.scheme != "https" or (location.port or 443) not in (443, urlsplit(url).port or 443):
            return None
        own = self._tokens.get(host)
        return None if own is None else Credential(own, location.place)


def user_and_token(held: Credential) -> tuple[str, Credential]:
    """What a secret holds: a token, or `user:token` where a server wants to know whose it is."""
    # No host's token has a colon.
    user, colon, token = held.sent_to(held.place).partition(":")
    return (user, Credential(token, held.place)) if colon and user and token else ("", held)
