"""Owns how a page is declared on the function that makes it: its path, who may see it, where people find it."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_type_hints

from holdfast.core.access import Access
from holdfast.core.operations import DeclarationError, Services
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_Function = TypeVar("_Function", bound=Callable[..., Awaitable[Reply]])
Group = Literal["top", "workspace", "settings"]


@dataclass(frozen=True, slots=True)
class NavRow:
    """Where people find a page: a row of the navigation. `{ws}` in its path is the workspace that is looked at."""

    title: str
    """In English, as the catalogues of words know it."""
    path: str
    icon: str
    """A symbol of `static/icons.svg`."""
    group: Group
    order: int
    """Lowest first, within its group."""
    access: Access
    administers: bool = False
    """Whether only those find it who administer the workspace that is looked at."""


@dataclass(frozen=True, slots=True)
class PageRow:
    """One page or form, bound to its services."""

    method: str
    path: str
    access: Access
    handler: Callable[[PageView], Awaitable[Reply]]


class _Declared(NamedTuple):
    method: str
    path: str
    access: Access
    function: Callable[..., Awaitable[Reply]]


class Pages:
    """The pages of one module, declared on their functions: `view` comes first, every other parameter is a service."""

    def __init__(self, *places: NavRow) -> None:
        self.places = places
        self._declared: list[_Declared] = []

    def get(self, path: str, access: Access) -> Callable[[_Function], _Function]:
        """Shows something."""
        return self._declare("GET", path, access)

    def post(self, path: str, access: Access) -> Callable[[_Function], _Function]:
        """Takes a form; it carries the session's token, which is checked before the function is called."""
        return self._declare("POST", path, access)

    def _declare(self, method: str, path: str, access: Access) -> Callable[[_Function], _Function]:
        def declared(function: _Function) -> _Function:
            first = next(iter(inspect.signature(function).parameters), None)
            if first != "view":
                raise DeclarationError(
                    f"{method} {path} ({function.__qualname__}) does not begin with `view: PageView`."
                )
            self._declared.append(_Declared(method, path, access, function))
            return function

        return declared

    def bind(self, services: Services) -> Sequence[PageRow]:
        """The pages with the services that they call."""
        return [
            PageRow(each.method, each.path, each.access, _bound(each.function, services)) for each in self._declared
        ]


def _bound(function: Callable[..., Awaitable[Reply]], services: Services) -> Callable[[PageView], Awaitable[Reply]]:
    hints = get_type_hints(function)
    names = list(inspect.signature(function).parameters)[1:]
    found: list[Any] = [services[hints[name]] for name in names]
    return lambda view: function(view, *found)
