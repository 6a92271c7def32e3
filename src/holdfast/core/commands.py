"""Owns CLI commands as features declare them: a function, its input model and what it needs; nothing of click."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic.fields import FieldInfo

from holdfast.core.clock import parse_moment
from holdfast.core.errors import Invalid
from holdfast.core.parts import Parts
from holdfast.core.principal import Principal

FAILED = 1
"""The exit code where a command did not work out: `raise SystemExit(FAILED)` after the answer was printed."""
NOT_FOUND = 4

Row = BaseModel | Mapping[str, Any]
"""An answer: the model that REST and tools give too, or plain JSON where only the command line has it."""
Reads = Literal["dash", "file"]
"""Where a text comes from: standard input where `-` is given, or the file that is named."""
PathKind = Literal["any", "file", "directory"]


class Progress(Protocol):
    """How far something is, shown while it runs."""

    def show(self, message: str, done: float = 0, total: float | None = None) -> None:
        """Say what is going on now, and how much of it is over."""


class Out(Protocol):
    """Where a command's answer goes: one JSON value for scripts, a table or lines for people."""

    @property
    def as_json(self) -> bool:
        """Whether a script reads the answer."""
        ...

    def record(self, value: Row, lines: Sequence[str] | None = None) -> None:
        """One thing: its JSON, or the lines (each field on a line where none are given)."""

    def table(self, rows: Iterable[Row], columns: Sequence[str], empty: str = "Nothing here yet.") -> None:
        """Several things: a JSON list with all fields, or a table of the named columns."""

    def write(self, text: str) -> None:
        """Text as it is, for what is neither a thing nor a list."""

    def note(self, text: str) -> None:
        """A remark for people; scripts read only stdout."""

    def progress(self) -> AbstractContextManager[Progress]:
        """Show how far something is until the block ends."""
        ...

    def confirm(self, question: str, *, default: bool = False) -> bool:
        """What a person at the terminal answers; True where nobody is there to be asked."""
        ...

    def ask_unseen(self, question: str) -> str:
        """What a person at the terminal types unseen, or all of standard input where nobody is there."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """One command's circumstances."""

    parts: Parts
    principal: Principal
    out: Out
    workspace: Callable[[str | None], Awaitable[str]]
    """The id of the workspace with this id, UUID or slug; the only one there is when none is named."""


@dataclass(frozen=True, slots=True)
class Argument:
    """Marks a field that goes by its place. A list takes all the words that are left."""

    metavar: str | None = None
    reads: Reads | None = None
    path: PathKind = "any"
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """Says how a field's option is written, where that does not follow from the field's name and type."""

    name: str | None = None
    """Such as `--tag` for the list `tags`, or `--blocking/--not-blocking`."""
    also: str | None = None
    """A second spelling."""
    metavar: str | None = None
    reads: Reads | None = None
    path: PathKind = "any"
    choices: tuple[str, ...] = ()
    """What may be written, where a Literal does not say so: a list that is put together elsewhere."""


class Given(BaseModel):
    """Base of what commands are given. Its fields are the options; those marked Argument go by their place."""

    # Deferred: only the model of the command that is called is worth building.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class InWorkspace(Given):
    """What every command in a workspace is given."""

    workspace: Annotated[str | None, Option(metavar="WS"), Field(description="The workspace's id, UUID or slug.")] = (
        None
    )


class Named(Given):
    """What a command is given that makes something with a name: `create NAME`, or `create --name NAME`."""

    name: Annotated[str | None, Argument("NAME")] = None
    named: Annotated[str | None, Option("--name", metavar="NAME")] = Field(None, description="The name, as an option.")

    @property
    def its_name(self) -> str:
        if self.name is not None and self.named is not None:
            raise Invalid("Two names were given; leave out NAME or --name.")
        if self.name is None and self.named is None:
            raise Invalid("It needs a name; write it after the command.")
        return self.name or self.named or ""


def option_name(field: str) -> str:
    """How the option of a field is written."""
    return "--" + field.replace("_", "-")


def _moment(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    return parse_moment(value, option_name(str(info.field_name))) if value else None


def _deadline(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    return parse_moment(value, option_name(str(info.field_name)), ahead=True) if value else None


Moment = Annotated[int | None, BeforeValidator(_moment), Option(metavar="TIME")]
"""A moment as people write it, such as 2026-11-16, or 7d for a week ago; milliseconds in the model."""

Deadline = Annotated[int | None, BeforeValidator(_deadline), Option(metavar="TIME")]
"""The same for what is to come: 90d is in 90 days."""

Work = Callable[..., Awaitable[None]]
Alone = Callable[[Out, Any], bool]


@dataclass(frozen=True, slots=True)
class Command:
    """One command: `async def f(session, …services, given)`; every parameter but those two is a part, by its class."""

    name: str
    help: str
    work: Work
    begins_store: bool = False
    """Whether it may make the store where there is none in a place that was named; every other command says so."""
    alone: Alone | None = None
    """Does it without any store where what it is given is enough; whether it did."""

    def needs(self) -> tuple[type[Given] | None, dict[str, type[Any]]]:
        """The input model, and which part each other parameter is."""
        hints = get_type_hints(self.work)
        names = [name for name in signature(self.work).parameters if name != "session"]
        return hints.get("given"), {name: hints[name] for name in names if name != "given"}


class Commands:
    """A group of commands, such as `holdfast memory`."""

    def __init__(self, name: str, *, help: str) -> None:
        self.name = name
        self.help = help
        self.commands: dict[str, Command] = {}

    def command(
        self, name: str, *, help: str, begins_store: bool = False, alone: Alone | None = None
    ) -> Callable[[Work], Command]:
        """Declare a command of this group."""

        def declare(work: Work) -> Command:
            return self.add(Command(name, help, work, begins_store, alone))

        return declare

    def add(self, command: Command) -> Command:
        """Take a command that is declared elsewhere into this group."""
        if command.name in self.commands:
            raise ValueError(f"{self.name} has two commands called {command.name}.")
        self.commands[command.name] = command
        return command


def command(
    name: str, *, help: str, begins_store: bool = False, alone: Alone | None = None
) -> Callable[[Work], Command]:
    """Declare a command of `holdfast` itself, or one that a group adds."""
    return lambda work: Command(name, help, work, begins_store, alone)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or argument as the command line has it."""

    field: str
    names: tuple[str, ...]
    """How it is written; the field's name alone where it goes by its place."""
    positional: bool
    kind: type[Any]
    """str, int, float, bool or Path; for a list, of each."""
    many: bool
    required: bool
    default: Any
    help: str | None
    metavar: str | None
    choices: tuple[str, ...]
    least: float | None
    most: float | None
    reads: Reads | None
    path: PathKind


def parameters(model: type[Given]) -> list[Parameter]:
    """The options and arguments that a model's fields are, in their order."""
    return [_parameter(name, field) for name, field in model.model_fields.items()]


def _parameter(name: str, field: FieldInfo) -> Parameter:
    # The last one: a field may say more of a type that has a marker of its own.
    markers = [each for each in field.metadata if isinstance(each, (Argument, Option))]
    marker = markers[-1] if markers else Option()
    kind, many = _kind(field.annotation)
    choices = tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else marker.choices
    # What the model reads itself, such as a moment, is text to the command line.
    is_text = bool(choices) or any(isinstance(each, BeforeValidator) for each in field.metadata)
    return Parameter(
        field=name,
        names=_names(name, marker),
        positional=isinstance(marker, Argument),
        kind=str if is_text else kind,
        many=many,
        required=field.is_required(),
        default=None if field.is_required() else field.get_default(call_default_factory=True),
        help=field.description,
        metavar=marker.metavar,
        choices=choices,
        least=next((_number(each.ge) for each in field.metadata if isinstance(each, Ge)), None),
        most=next((_number(each.le) for each in field.metadata if isinstance(each, Le)), None),
        reads=marker.reads,
        path=marker.path,
    )


def _names(field: str, marker: Argument | Option) -> tuple[str, ...]:
    if isinstance(marker, Argument):
        return (field,)
    return tuple(name for name in (marker.name or option_name(field), marker.also) if name is not None)


def _kind(annotation: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    if get_origin(annotation) in (list, tuple):
        return get_args(annotation)[0], True
    if annotation not in (str, int, float, bool, Path) and get_origin(annotation) is not Literal:
        raise TypeError(f"The command line has no option of the type {annotation}.")
    return annotation, False


def _number(bound: Any) -> float:
    assert isinstance(bound, (int, float))
    return bound
