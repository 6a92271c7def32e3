"""Owns the declarations of the management API: an operation is said on its handler, and read off its annotations."""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar, Unpack, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from holdfast.core.access import Access
from holdfast.core.errors import Invalid
from holdfast.core.model import NoQuery
from holdfast.core.paging import Page
from holdfast.core.principal import Principal

_Function = TypeVar("_Function", bound=Callable[..., Awaitable[Any]])
_Part = TypeVar("_Part")
_PATH_PART = re.compile(r"\{(\w+)\}")
EVENT_STREAM = "text/event-stream"


class DeclarationError(TypeError):
    """A handler does not say what an operation needs to know; raised when its module is imported."""


class CutShort(Invalid):
    """The connection closed before the request was whole."""

    code = "cut_short"


class UploadedPart(Protocol):
    """What came with the file of an upload."""

    fields: dict[str, str]
    filename: str | None
    media_type: str


class Call(ABC):
    """One request, parsed, and what a handler may ask of it beyond its path, query and body."""

    __slots__ = ("body", "path", "principal", "public_url", "query")

    def __init__(self, principal: Principal, path: Mapping[str, str], query: Any, body: Any, public_url: str) -> None:
        self.principal = principal
        self.path = path
        self.query = query
        self.body = body
        self.public_url = public_url
        """Where this server is reached from outside."""

    @abstractmethod
    def header(self, name: str) -> str | None:
        """The first header of that name."""

    @abstractmethod
    def session(self) -> str | None:
        """The cookie of the session that proves who asks; None where a key or a token does."""

    @abstractmethod
    def stream(self) -> AsyncIterator[bytes]:
        """The raw body as it arrives; CutShort when the client hangs up before its end."""

    @abstractmethod
    async def upload(self, write: Callable[[bytes], Awaitable[None]]) -> UploadedPart:
        """Hand the bytes of an uploaded file to `write` as they arrive; what else came once all was read."""

    @abstractmethod
    async def again(self) -> Principal:
        """Who asks, as the store knows them now: Unauthenticated once their credential stopped working."""

    @abstractmethod
    def unhurried(self) -> None:
        """From here on the operation's own limits bound the answer, not the time of a usual request."""


@dataclass(frozen=True, slots=True)
class Download:
    """An answer that is not JSON: bytes, whole or as they come."""

    content: bytes | AsyncIterator[bytes] | AsyncIterator[str]
    media_type: str
    filename: str | None = None
    """Named: the client keeps it as a file of that name instead of showing it."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer that goes on: Server-Sent Events as they happen, each whole."""

    frames: AsyncGenerator[bytes, None]
    """Closed when the client hangs up or reads too slowly; an error before the first is answered as usual."""


Handler = Callable[[Call], Awaitable[Any]]
"""Answers a model, a Page of them, a Download, an EventStream, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of the API. A list operation answers a Page and names its item's model as `answer`."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    access: Access
    """Who may call it; checked before anything is read of the request's body."""
    body: type[BaseModel] | None = None
    """None: the handler reads the body itself (uploads), or there is none."""
    query: type[BaseModel] = NoQuery
    answer: type[BaseModel] | None = None
    paged: bool = False
    status: int = 200
    upload: str | None = None
    """The media type of a body that the handler reads itself."""
    produces: str = "application/json"
    shows_secret: bool = False
    """Whether the answer has a secret that is shown once: it is not kept for a repeated Idempotency-Key."""
    no_store: bool = False
    """Whether the answer opens something for who has it: no cache keeps it."""


class Services(Protocol):
    """Where services come from, by their class: `Parts`."""

    def __getitem__(self, kind: type[_Part]) -> _Part: ...


class Declarator(Protocol):
    """Takes a handler in and leaves it as it is."""

    def __call__(self, function: _Function) -> _Function: ...


class Options(TypedDict, total=False):
    """What an operation may say of itself beyond its handler's annotations; see `Operation`."""

    status: int
    """200 where left out, 204 where the handler returns None."""
    tag: str
    """The heading in the documentation, where it is not that of the feature."""
    upload: str
    produces: str
    """The media type of a Download."""
    shows_secret: bool
    no_store: bool


_Getter = Callable[[Call], Any]
_Source = Callable[[Services], _Getter]
"""Where a parameter comes from: asked once for the way to get it, which is then asked at each call."""


class _Declared(NamedTuple):
    function: Callable[..., Awaitable[Any]]
    sources: Sequence[_Source]
    row: Mapping[str, Any]


class Operations:
    """The operations of a feature, declared on their handlers.

    A parameter named in the path is that part of it; `query` and `body` are the models of theirs, `principal` is who
    asks and `call` the whole request. Every other parameter is a service, found by its class when the table is bound.
    What the handler returns is the answer: a model, a `Page` of them, a `Download`, an `EventStream`, or None.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._declared: list[_Declared] = []

    def get(self, path: str, access: Access, summary: str, **options: Unpack[Options]) -> Declarator:
        """Reads something. The options are those of `declare`."""
        return self.declare("GET", path, access, summary, **options)

    def post(self, path: str, access: Access, summary: str, **options: Unpack[Options]) -> Declarator:
        """Makes something, or asks with a body."""
        return self.declare("POST", path, access, summary, **options)

    def put(self, path: str, access: Access, summary: str, **options: Unpack[Options]) -> Declarator:
        """Sets something whole."""
        return self.declare("PUT", path, access, summary, **options)

    def patch(self, path: str, access: Access, summary: str, **options: Unpack[Options]) -> Declarator:
        """Changes some fields of something."""
        return self.declare("PATCH", path, access, summary, **options)

    def delete(self, path: str, access: Access, summary: str, **options: Unpack[Options]) -> Declarator:
        """Removes something."""
        return self.declare("DELETE", path, access, summary, **options)

    def declare(self, method: str, path: str, access: Access, summary: str, **options: Unpack[Options]) -> Declarator:
        """Serve the decorated function at a path; DeclarationError where its annotations leave something open."""

        def declared(function: _Function) -> _Function:
            read = _Reading(f"{method} {path}", function)
            if any((row["method"], row["path"]) == (method, path) for _, _, row in self._declared):
                raise read.wrong("is declared twice")
            if not isinstance(access, Access):
                raise read.wrong("says no Access")
            sources, models = read.parameters(set(_PATH_PART.findall(path)))
            if "body" in models and (method == "GET" or "upload" in options):
                raise read.wrong("takes a body as a model, but its method or `upload` says that there is none")
            said = {"method": method, "path": path, "access": access, "summary": summary, "tag": self._tag}
            row = {**said, **options, **models, **read.answer(options.get("status"), options.get("produces"))}
            self._declared.append(_Declared(function, sources, row))
            return function

        return declared

    def bind(self, services: Services) -> list[Operation]:
        """The operations with the services that they call; those are asked for now and never again."""
        return [
            Operation(handler=_handler(function, [source(services) for source in sources]), **row)
            for function, sources, row in self._declared
        ]


class _Reading:
    """Reads an operation off the annotations of its handler."""

    def __init__(self, where: str, function: Callable[..., Any]) -> None:
        self._where = f"{where} ({function.__module__}.{function.__qualname__})"
        if not inspect.iscoroutinefunction(function):
            raise self.wrong("is no `async def`")
        try:
            self._hints = get_type_hints(function)
        except NameError as error:
            raise self.wrong(f"has an annotation that is not there when it runs: {error}") from None
        self._parameters = inspect.signature(function).parameters

    def wrong(self, problem: str) -> DeclarationError:
        """What is wrong with this handler."""
        return DeclarationError(f"{self._where} {problem}.")

    def parameters(self, of_path: set[str]) -> tuple[list[_Source], dict[str, type[BaseModel]]]:
        """Where each parameter comes from, and the models of query and body."""
        if missing := of_path - self._parameters.keys():
            raise self.wrong(f"takes no parameter for {', '.join(sorted(missing))} of its path")
        sources: list[_Source] = []
        models: dict[str, type[BaseModel]] = {}
        for name, parameter in self._parameters.items():
            plain = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            if not plain or parameter.default is not parameter.empty:
                raise self.wrong(f"has the parameter `{name}` that is not a plain one: write `name: Kind`")
            kind = self._hints.get(name)
            if not isinstance(kind, type):
                raise self.wrong(f"has the parameter `{name}` whose annotation is not a class")
            if name in ("query", "body"):
                if not issubclass(kind, BaseModel):
                    raise self.wrong(f"takes `{name}` as {kind.__name__}, which is no model")
                models[name] = kind
            sources.append(self._source(name, kind, of_path))
        return sources, models

    def _source(self, name: str, kind: type[Any], of_path: set[str]) -> _Source:
        needed = {**dict.fromkeys(of_path, str), "principal": Principal, "call": Call}.get(name)
        if needed is not None and kind is not needed:
            raise self.wrong(f"takes `{name}` as {kind.__name__}; it is a {needed.__name__}")
        if name in of_path:
            return lambda services: lambda call: call.path[name]
        if name == "call":
            return lambda services: lambda call: call
        if name in ("principal", "query", "body"):
            return lambda services: attrgetter(name)
        return lambda services: _constant(services[kind])

    def answer(self, status: int | None, produces: str | None) -> dict[str, Any]:
        """What the handler answers, and how."""
        if "return" not in self._hints:
            raise self.wrong("says not what it returns")
        kind = self._hints["return"]
        if kind is Download:
            if produces is None:
                raise self.wrong("returns a Download: say `produces=`, its media type")
            return {"status": status or 200, "produces": produces}
        if produces is not None:
            raise self.wrong("says `produces=`, but returns no Download")
        if kind is EventStream:
            return {"status": status or 200, "produces": EVENT_STREAM}
        if kind is type(None):
            if status not in (None, 204):
                raise self.wrong(f"returns None, which is 204, not {status}")
            return {"status": 204}
        paged = get_origin(kind) is Page
        model = get_args(kind)[0] if paged else kind
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise self.wrong("returns neither a model, a Page of models, a Download, an EventStream nor None")
        return {"status": status or 200, "answer": model, "paged": paged}


def _constant(value: object) -> _Getter:
    return lambda call: value


def _handler(function: Callable[..., Awaitable[Any]], getters: Sequence[_Getter]) -> Handler:
    # No coroutine of its own: this stands between every request and its handler.
    return lambda call: function(*[get(call) for get in getters])
