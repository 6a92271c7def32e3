"""Operations are read off their handlers; what a handler leaves open is said when its module is imported."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import Field as PydanticField

from holdfast.core.access import READ, WRITE
from holdfast.core.errors import Invalid
from holdfast.core.model import Answer, Model, Moment, OrNull, PageQuery, Sorted, Time, Words
from holdfast.core.operations import Call, DeclarationError, Download, EventStream, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal

PRINCIPAL = Principal(
    actor="user_1",
    name="Ada",
    organization_id="org_1",
    scopes=frozenset({"read"}),
    role="member",
    tier="all",
    proof="session",
    is_person=True,
)


class Shelf:
    """A service."""

    def title(self, id: str) -> str:
        return f"Book {id}"


class Services:
    """Finds services by their class, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __getitem__(self, kind: type[Any]) -> Any:
        self.asked += 1
        return kind()


class BookBody(Model):
    title: str


class BookAnswer(Answer):
    title: str


class FakeCall(Call):
    """A call that came from nowhere."""

    def header(self, name: str) -> str | None:
        return None

    def session(self) -> str | None:
        return None

    def stream(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def upload(self, write: Callable[[bytes], Awaitable[None]]) -> Any:
        raise NotImplementedError

    async def again(self) -> Principal:
        return self.principal

    def unhurried(self) -> None:
        """There is no hurry."""


def call(**path: str) -> Call:
    return FakeCall(PRINCIPAL, path, PageQuery(), BookBody(title="New"), "http://here")


async def test_a_handler_gets_what_its_parameters_name() -> None:
    api = Operations("books")

    @api.put("/books/{id}", WRITE, "Write a book", status=202, tag="shelves")
    async def write(
        body: BookBody, shelf: Shelf, principal: Principal, id: str, query: PageQuery, call: Call
    ) -> BookAnswer:
        return BookAnswer(title=f"{shelf.title(id)} {body.title} {principal.name} {query.limit} {call.public_url}")

    services = Services()
    (bound,) = api.bind(services)
    answers = [await bound.handler(call(id=id)) for id in ("1", "2")]

    assert [answer.title for answer in answers] == [f"Book {id} New Ada 50 http://here" for id in ("1", "2")]
    assert services.asked == 1, "services are asked for when the table is bound, never at a call"
    assert (bound.method, bound.status, bound.tag, bound.summary) == ("PUT", 202, "shelves", "Write a book")
    assert (bound.body, bound.query, bound.answer, bound.paged) == (BookBody, PageQuery, BookAnswer, False)


async def test_what_a_handler_returns_is_the_answer() -> None:
    api = Operations("books")

    @api.get("/books", READ, "List books")
    async def page() -> Page[BookAnswer]:
        return Page([])

    @api.delete("/books", WRITE, "Burn books")
    async def burn() -> None:
        return None

    @api.get("/books/print", READ, "Print books", produces="application/pdf")
    async def printed() -> Download:
        return Download(b"", "application/pdf")

    @api.get("/books/news", READ, "Follow books")
    async def news() -> EventStream:
        raise NotImplementedError

    listed, burnt, download, stream = api.bind(Services())
    assert (listed.answer, listed.paged, listed.status) == (BookAnswer, True, 200)
    assert (burnt.answer, burnt.status) == (None, 204)
    assert (download.answer, download.produces) == (None, "application/pdf")
    assert (stream.answer, stream.produces) == (None, "text/event-stream")


async def no_annotation(shelf) -> BookAnswer:  # type: ignore[no-untyped-def]
    raise NotImplementedError


async def not_a_class(shelf: Shelf | None) -> BookAnswer:
    raise NotImplementedError


async def defaults(shelf: Shelf = Shelf()) -> BookAnswer:  # noqa: B008
    raise NotImplementedError


async def many(*shelf: Shelf) -> BookAnswer:
    raise NotImplementedError


async def no_path(shelf: Shelf) -> BookAnswer:
    raise NotImplementedError


async def path_of_another_kind(id: int) -> BookAnswer:
    raise NotImplementedError


async def principal_of_another_kind(principal: str) -> BookAnswer:
    raise NotImplementedError


async def call_of_another_kind(call: Shelf) -> BookAnswer:
    raise NotImplementedError


async def query_is_no_model(query: str) -> BookAnswer:
    raise NotImplementedError


async def body_is_no_model(body: Shelf) -> BookAnswer:
    raise NotImplementedError


async def body_of_a_get(body: BookBody) -> BookAnswer:
    raise NotImplementedError


async def returns_nothing_said(shelf: Shelf):  # type: ignore[no-untyped-def]
    raise NotImplementedError


async def returns_something_else() -> str:
    raise NotImplementedError


async def page_of_something_else() -> Page[str]:
    raise NotImplementedError


async def none_with_a_status() -> None:
    raise NotImplementedError


async def download() -> Download:
    raise NotImplementedError


def not_async() -> BookAnswer:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("handler", "path", "options", "problem"),
    [
        (no_annotation, "/x", {}, "`shelf` whose annotation is not a class"),
        (not_a_class, "/x", {}, "`shelf` whose annotation is not a class"),
        (defaults, "/x", {}, "`shelf` that is not a plain one"),
        (many, "/x", {}, "`shelf` that is not a plain one"),
        (no_path, "/x/{id}", {}, "no parameter for id of its path"),
        (path_of_another_kind, "/x/{id}", {}, "takes `id` as int; it is a str"),
        (principal_of_another_kind, "/x", {}, "takes `principal` as str; it is a Principal"),
        (call_of_another_kind, "/x", {}, "takes `call` as Shelf; it is a Call"),
        (query_is_no_model, "/x", {}, "takes `query` as str, which is no model"),
        (body_is_no_model, "/x", {}, "takes `body` as Shelf, which is no model"),
        (body_of_a_get, "/x", {}, "takes a body as a model"),
        (returns_nothing_said, "/x", {}, "says not what it returns"),
        (returns_something_else, "/x", {}, "returns neither a model"),
        (page_of_something_else, "/x", {}, "returns neither a model"),
        (none_with_a_status, "/x", {"status": 201}, "returns None, which is 204, not 201"),
        (download, "/x", {}, "say `produces=`"),
        (returns_nothing_said, "/x", {"produces": "text/plain"}, "says not what it returns"),
        (not_async, "/x", {}, "is no `async def`"),
    ],
)
def test_what_is_left_open_is_said_at_once(
    handler: Callable[..., Any], path: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DeclarationError) as raised:
        Operations("x").get(path, READ, "X", **options)(handler)
    assert problem in str(raised.value)
    assert f"GET {path} ({handler.__module__}.{handler.__name__})" in str(raised.value)


def test_a_media_type_is_for_downloads_and_an_upload_is_no_model() -> None:
    async def read() -> BookAnswer:
        raise NotImplementedError

    with pytest.raises(DeclarationError, match="returns no Download"):
        Operations("x").get("/x", READ, "X", produces="text/plain")(read)
    with pytest.raises(DeclarationError, match="takes a body as a model"):
        Operations("x").post("/x", WRITE, "X", upload="text/plain")(body_of_a_get)


def test_an_operation_is_declared_once_and_says_who_may_call_it() -> None:
    api = Operations("x")
    api.get("/x", READ, "X", produces="text/plain")(download)
    with pytest.raises(DeclarationError, match="is declared twice"):
        api.get("/x", READ, "X", produces="text/plain")(download)
    with pytest.raises(DeclarationError, match="says no Access"):
        api.get("/y", "read", "Y", produces="text/plain")(download)  # type: ignore[arg-type]


def test_an_annotation_must_be_there_when_it_runs() -> None:
    async def read(shelf: "Missing") -> BookAnswer:  # type: ignore[name-defined]  # noqa: F821
        raise NotImplementedError

    with pytest.raises(DeclarationError, match="not there when it runs"):
        Operations("x").get("/x", READ, "X")(read)


@dataclass(frozen=True, slots=True)
class Book:
    title: str
    tags: frozenset[str]
    source: str
    read_at: int | None
    written_at: int = 0


class WholeBookAnswer(Answer):
    title: str
    tags: Sorted
    source: OrNull
    read_at: Time | None
    created_at: Time
    pages: int


class WholeBookBody(Model):
    title: str
    tags: frozenset[str]
    source: str
    read_at: Moment = None
    words: Words = []


def test_an_answer_is_read_off_the_domain_object() -> None:
    class Shown(WholeBookAnswer):
        created_at: Time = PydanticField(validation_alias="written_at")

    shown = Shown.of(Book("Tides", frozenset({"b", "a"}), "", None), pages=7)
    assert shown.model_dump(by_alias=True) == {
        "title": "Tides",
        "tags": ["a", "b"],
        "source": None,
        "read_at": None,
        "created_at": "1970-01-01T00:00:00.000Z",
        "pages": 7,
    }


def test_a_request_becomes_the_domain_object() -> None:
    body = WholeBookBody.model_validate(
        {"title": "Tides", "tags": ["a"], "source": "x", "read_at": "1970-01-01T00:00:01Z", "words": ["a,b", "c"]}
    )
    assert body.into(Book, source="y") == Book("Tides", frozenset({"a"}), "y", 1000)
    assert body.words == ["a", "b", "c"]
    assert WholeBookBody(title="", tags=frozenset(), source="").read_at is None


@pytest.mark.parametrize(
    ("given", "problem"), [("soon", "'soon' is not a date or time"), ("2" * 65, "at most 64"), (7, "valid string")]
)
def test_a_time_that_cannot_be_read_names_its_field(given: object, problem: str) -> None:
    with pytest.raises((Invalid, ValueError)) as raised:
        WholeBookBody.model_validate({"title": "", "tags": [], "source": "", "read_at": given})
    said = str(raised.value) + str(getattr(raised.value, "fields", ""))
    assert problem in said and "read_at" in said
