"""Owns the one exception base and its nine kinds; surfaces render them, everything below raises them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.text.redaction import redacted_path


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: its path in the input, what is wrong with it, and what to do instead."""

    field: str
    message: str


class HoldfastError(Exception):
    """What went wrong, in words for the person or agent who asked."""

    code = "internal"
    status = 500

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        fields: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.fields = tuple(fields)
        self.headers = dict(headers or {})


class Invalid(HoldfastError):
    """The input breaks a rule; the fields say which."""

    code = "invalid"
    status = 422


class Unauthenticated(HoldfastError):
    """Nobody known is asking. One text for every cause, so that nothing can be learned from it."""

    code = "unauthenticated"
    status = 401

    def __init__(self) -> None:
        super().__init__("A valid credential is required.", headers={"WWW-Authenticate": 'Bearer realm="holdfast"'})


class Forbidden(HoldfastError):
    """Somebody known is asking for what they may not do."""

    code = "forbidden"
    status = 403


class NotFound(HoldfastError):
    """No such thing for this caller; another tenant's row answers the same."""

    code = "not_found"
    status = 404

    def __init__(self, kind: str, id: str) -> None:
        # The id is what the caller sent, and may be a key that stood in the wrong place.
        super().__init__(f"No {kind} {redacted_path(id)!r} here.")
        self.kind = kind


class Conflict(HoldfastError):
    """The input is right but the present state does not allow it."""

    code = "conflict"
    status = 409


class ApprovalRequired(HoldfastError):
    """A person has to agree first."""

    code = "approval_required"
    status = 403


class RateLimited(HoldfastError):
    """Too much, too fast; the headers say when to come back."""

    code = "rate_limited"
    status = 429


class UpstreamFailed(HoldfastError):
    """Somebody else's server did not do its part."""

    code = "upstream_failed"
    status = 502


class Unavailable(HoldfastError):
    """We can't do it just now (storage full or away, shutting down); the same call may work later."""

    code = "unavailable"
    status = 503
