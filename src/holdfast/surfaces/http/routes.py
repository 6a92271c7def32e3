"""Owns the table of paths: exact segments first, then `{name}` ones, found without regular expressions."""

from typing import Generic, TypeVar
from urllib.parse import unquote

T = TypeVar("T")

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class _Node(Generic[T]):
    __slots__ = ("children", "methods", "parameter")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.parameter: _Node[T] | None = None
        self.methods: dict[str, tuple[T, tuple[str, ...]]] = {}


class Routes(Generic[T]):
    """Paths to things, by method."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._plain: dict[tuple[str, str], T] = {}

    def add(self, method: str, path: str, target: T) -> None:
        """Serve `target` at a path such as `/api/projects/{project_id}`."""
        node = self._root
        names = []
        for segment in path.strip("/").split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.children.setdefault(segment, _Node())
        if method in node.methods:
            raise ValueError(f"{method} {path} is served twice")
        node.methods[method] = (target, tuple(names))
        if not names:
            self._plain[method, path.strip("/")] = target

    def match(self, method: str, path: str, raw: bytes = b"") -> tuple[T, dict[str, str]] | None:
        """What serves this path, with the values of its parameters; in `raw`, as it was sent, `%2F` divides nothing."""
        path = path.strip("/")
        plain = self._plain.get((method, path))
        if plain is not None:
            return plain, {}
        segments = path.split("/")
        if b"%2f" in raw.lower():
            segments = [unquote(each) for each in raw.decode("latin-1").strip("/").split("/")]
        found = self._walk(self._root, segments, 0, [], method)
        if found is None:
            return None
        (target, names), values = found
        return target, dict(zip(names, values, strict=True))

    def methods(self, path: str) -> list[str]:
        """The methods that this path is served for."""
        return [method for method in _METHODS if self.match(method, path) is not None]

    def _walk(
        self, node: _Node[T], segments: list[str], at: int, values: list[str], method: str
    ) -> tuple[tuple[T, tuple[str, ...]], list[str]] | None:
        if at == len(segments):
            entry = node.methods.get(method)
            return None if entry is None else (entry, values)
        exact = node.children.get(segments[at])
        if exact is not None and (found := self._walk(exact, segments, at + 1, values, method)):
            return found
        if node.parameter is not None and segments[at]:
            return self._walk(node.parameter, segments, at + 1, [*values, segments[at]], method)
        return None
