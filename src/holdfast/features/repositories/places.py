"""Owns whether a place may be remembered: who may name a path, and that what can be known at once is not told later."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.core.errors import FieldError, Forbidden, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.model import GitFailed
from holdfast.engines.git.transport.address import Location, is_path, may_be_path, parse_location


class Places:
    """Takes a location as somebody writes it, or says what is wrong with it."""

    def __init__(self, git: GitEngine, allowed_paths: Sequence[str] = ()) -> None:
        """`allowed_paths` are directories whose repositories may be added over the network."""
        self._git = git
        self._allowed = tuple(Path(path).expanduser().resolve() for path in allowed_paths)

    async def admit(self, principal: Principal, text: str, branch: str) -> Location:
        """Where it is. A path is looked at now; a URL when it is cloned, unless it can be refused as it stands."""
        # Asked before a path is looked at, so that nobody else learns what there is.
        if is_path(text.strip()) or (principal.proof != "local" and may_be_path(text.strip())):
            self._check_path(principal, text.strip())
        location = parse_location(text)
        if location.is_local:
            self._check_path(principal, location.path)
        try:
            self._git.check(location)
            if location.is_local:
                await self._git.fetch("", location, branch=branch)
        except GitFailed as problem:
            field = "branch" if problem.code == "no_such_branch" else "location"
            raise Invalid(problem.message, fields=[FieldError(field, problem.message)]) from None
        return location

    def _check_path(self, principal: Principal, text: str) -> None:
        """A path names a place on the server's machine: it is for those who are on it, or whom the operator lets."""
        if principal.proof == "local":
            return
        try:
            resolved = Path(text).expanduser().resolve()
        except (OSError, RuntimeError, ValueError):
            resolved = Path("/")
        if not any(resolved.is_relative_to(root) for root in self._allowed):
            raise Forbidden(
                "A path on the server can be added there with `holdfast repos add`, or over the network when "
                "HOLDFAST_REPOSITORY_PATHS names a directory above it; otherwise give a URL."
            )
