"""Owns what imports what: the file that an import means, by the simple rules of each language, and sums of that."""

import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.features.repositories.model import KnownFile
from holdfast.features.synthesis.sources.components import Components
from holdfast.features.synthesis.sources.outline import Outline

_SOURCE_ROOTS = ("", "src", "lib", "python", "app", "source")
_MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "pom.xml")
_SCRIPT_ENDS = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".vue", "/index.ts", "/index.tsx", "/index.js")
_JAVA_ROOT = re.compile(r"(?:^|.*/)(?:src/(?:main|test)/(?:java|kotlin)|java|src)/")


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Imports among components, and how often what is not in the repository is imported."""

    between: Counter[tuple[str, str]]
    examples: dict[tuple[str, str], str]
    """Of each pair, a file that imports so."""
    external: Counter[str]


class ImportMap:
    """Finds the file that an import means, by the simple rules of each language."""

    def __init__(self, files: Sequence[KnownFile], go_modules: Mapping[str, str], packages: Mapping[str, str]) -> None:
        """`go_modules` and `packages` name directories by the Go module, npm package or crate that they hold."""
        self._paths = {file.path for file in files}
        self._directories = {posixpath.dirname(path) for path in self._paths}
        self._go = dict(go_modules)
        self._packages = dict(packages)
        self._modules: dict[str, str] = {}
        self._java: dict[str, str] = {}
        roots = {posixpath.dirname(path) for path in self._paths if path.rsplit("/", 1)[-1] in _MANIFESTS} | {""}
        places = sorted({posixpath.join(root, base) if root else base for root in roots for base in _SOURCE_ROOTS})
        for file in files:
            if file.language == "python":
                self._register(file.path, places)
            elif file.language in ("java", "kotlin"):
                dotted = _JAVA_ROOT.sub("", file.path).rsplit(".", 1)[0].replace("/", ".")
                self._java.setdefault(dotted, file.path)

    def _register(self, path: str, places: Sequence[str]) -> None:
        for place in places:
            start = f"{place}/" if place else ""
            if path.startswith(start):
                bare = path[len(start) :].removesuffix(".py").removesuffix("/__init__")
                self._modules.setdefault(bare.replace("/", "."), path)

    def target(self, file: KnownFile, name: str) -> str | None:
        """The path that an import in a file means; None when it is not in the repository."""
        match file.language:
            case "python":
                return self._python(file.path, name)
            case "javascript" | "typescript" | "tsx":
                return self._script(file.path, name)
            case "go":
                return self._in_go(name)
            case "java" | "kotlin":
                return self._java.get(name) or self._java.get(name.rpartition(".")[0])
            case "rust":
                return self._rust(file.path, name)
            case "ruby":
                near = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), name))
                return next((path for path in (f"{near}.rb", f"lib/{name}.rb") if path in self._paths), None)
        return None

    def _python(self, path: str, name: str) -> str | None:
        if name.startswith("."):
            depth = len(name) - len(name.lstrip("."))
            base = posixpath.dirname(path)
            for _ in range(depth - 1):
                base = posixpath.dirname(base)
            rest = name.lstrip(".").replace(".", "/")
            stem = posixpath.join(base, rest) if rest else base
            ends = (f"{stem}.py", f"{stem}/__init__.py") if rest else (f"{stem}/__init__.py",)
            return next((end for end in ends if end in self._paths), None)
        return self._modules.get(name)

    def _script(self, path: str, name: str) -> str | None:
        if name.startswith("."):
            stem = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            bare = stem.removesuffix(".js")
            return next(
                (f"{each}{end}" for each in (stem, bare) for end in _SCRIPT_ENDS if f"{each}{end}" in self._paths), None
            )
        package = "/".join(name.split("/")[: 2 if name.startswith("@") else 1])
        home = self._packages.get(package)
        return None if home is None else self._any_below(home)

    def _in_go(self, name: str) -> str | None:
        for module, home in self._go.items():
            if name == module or name.startswith(f"{module}/"):
                return self._any_below(posixpath.join(home, name[len(module) :].strip("/")).strip("/"))
        return None

    def _rust(self, path: str, name: str) -> str | None:
        parts = name.split("::")
        crate = path.split("/src/")[0] + "/src" if "/src/" in path else "src"
        if parts[0] == "crate":
            return self._rust_module(crate, parts[1:])
        if parts[0] in ("super", "self"):
            base = posixpath.dirname(path)
            if path.rsplit("/", 1)[-1] not in ("mod.rs", "lib.rs", "main.rs") and parts[0] == "self":
                base = path.removesuffix(".rs")
            return self._rust_module(base, parts[1:])
        home = self._packages.get(parts[0].replace("_", "-")) or self._packages.get(parts[0])
        return None if home is None else self._any_below(home)

    def _rust_module(self, base: str, parts: Sequence[str]) -> str | None:
        for count in range(len(parts), 0, -1):
            stem = posixpath.join(base, *parts[:count])
            found = next((path for path in (f"{stem}.rs", f"{stem}/mod.rs") if path in self._paths), None)
            if found:
                return found
        return None

    def _any_below(self, directory: str) -> str | None:
        """A name below a directory that stands for it, where it exists."""
        return posixpath.join(directory, ".") if directory in self._directories or not directory else None


def dependencies(
    files: Sequence[KnownFile], outlines: Mapping[str, Outline], imports: ImportMap, components: Components
) -> Dependencies:
    """Who imports whom, by component; each file counts once for each other component."""
    between: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    external: Counter[str] = Counter()
    for file in files:
        known = outlines.get(file.path)
        home = components.of(file.path)
        if known is None or home is None:
            continue
        reached: set[str] = set()
        for name in known.imports:
            target = imports.target(file, name)
            if target is None:
                external[_top(file.language, name)] += 1
            elif there := components.of(target) or components.home(target):
                reached.add(there)
        for other in reached - {home}:
            between[home, other] += 1
            examples.setdefault((home, other), file.path)
    external.pop("", None)
    return Dependencies(between, examples, external)


def _top(language: str, name: str) -> str:
    if name.startswith("."):
        return ""
    match language:
        case "python":
            return name.split(".")[0]
        case "rust":
            return name.split("::")[0]
        case "javascript" | "typescript" | "tsx":
            return "/".join(name.split("/")[: 2 if name.startswith("@") else 1])
        case "go":
            return "/".join(name.split("/")[:3]) if "." in name.split("/")[0] else ""
    return ".".join(name.split(".")[:2])
