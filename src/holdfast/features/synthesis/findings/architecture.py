"""Owns the architecture page: what the project is, what it is made of, where it begins, how it is built and tested."""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator

from holdfast.core.text.counting import many
from holdfast.features.synthesis.findings.page import DerivedPage
from holdfast.features.synthesis.model import FindingDraft, FindingOrigin, in_file
from holdfast.features.synthesis.sources.components import is_code
from holdfast.features.synthesis.sources.facts import Facts, is_readme
from holdfast.features.synthesis.sources.manifests import Manifest
from holdfast.features.synthesis.sources.quoting import DocumentBlock, blocks, first_sentence, shortened

Cited = tuple[FindingOrigin, str]
_HOW = re.compile(
    r"\b(?:install|installation|build|building|test|tests|testing|develop|development|getting started|quick ?start|"
    r"usage|run|running|set ?up|contributing)\b",
    re.IGNORECASE,
)
_TARGET = re.compile(r"^([A-Za-z][\w.-]*)\s*:(?!=)")
_TELLING_TARGETS = (
    "build",
    "test",
    "check",
    "lint",
    "run",
    "install",
    "dev",
    "start",
    "format",
    "deploy",
    "release",
    "all",
)
_STARTS = re.compile(
    r"(?:^|/)(?:__main__\.py|manage\.py|src/main\.rs|src/bin/[^/]+\.rs)$|^(?:cmd/(?:[^/]+/)*)?main\.go$"
)
"""What a language itself runs by its name; a file that is only called so (`app.py`, `index.js`) may be anything."""
_BESIDE = re.compile(r"(?:^|/)(?:tests?|examples?|docs?|fixtures?|benchmarks?|samples?|vendor|node_modules)/", re.I)
_WORKFLOW = re.compile(r"^\.github/workflows/[^/]+\.ya?ml$|^\.gitlab-ci\.yml$|^\.circleci/config\.yml$|^Jenkinsfile$")
_PACKAGE_FILES = ("__init__.py", "mod.rs", "lib.rs", "doc.go", "index.ts", "index.js", "package-info.java")
"""Files whose words are said of the directory that they are in."""
_OF_GO_PACKAGE = re.compile(r"\w+: ")
_PICTURE = re.compile(r"\[?!\[[^\]]*\](?:\([^)]*\))?(?:\]\([^)]*\))?")
_MOST_DIRECTORIES = 20
_MOST_DEPENDENCIES = 15


def architecture(facts: Facts) -> FindingDraft | None:
    """The page; None for a repository without a file."""
    if not facts.files:
        return None
    page = DerivedPage(facts.repository, "architecture")
    _what(page, facts)
    _languages(page, facts)
    _layout(page, facts)
    _starts(page, facts)
    _dependencies(page, facts)
    _how(page, facts)
    return page.draft()


def _what(page: DerivedPage, facts: Facts) -> None:
    said = [*_opening(facts)]
    for manifest in facts.manifests:
        if manifest.description and not manifest.directory:
            line = manifest.description_line
            said.append((shortened(manifest.description), (in_file(manifest.path, line), manifest.description)))
    if not said:
        return
    page.head("What it is")
    seen: set[str] = set()
    for text, cited in said:
        if text.lower().rstrip(".") not in seen:
            seen.add(text.lower().rstrip("."))
            page.say(f"{text}", cited)
            page.gap()


def _opening(facts: Facts) -> Iterator[tuple[str, Cited]]:
    """The first paragraphs of the README that are sentences rather than badges."""
    path = facts.readme()
    if path is None:
        return
    count = 0
    for block in blocks(facts.texts[path]):
        if block.level > 1 and count:
            return
        # Badges and links to translations are no sentence, however many.
        told = _PICTURE.sub(" ", block.text)
        if block.level or block.code or len(told.split()) < 5 or told.startswith(("|", "http")):
            continue
        yield shortened(block.text, 500), _cite(path, block)
        count += 1
        if count == 2:
            return


def _languages(page: DerivedPage, facts: Facts) -> None:
    lines: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for file in facts.files:
        if is_code(file):
            lines[file.language] += file.lines
            numbers[file.language] += 1
    total = lines.total()
    if not total:
        return
    page.head("Languages")
    rows = [
        (language, f"{numbers[language]:,}", f"{count:,}", f"{100 * count / total:.0f} %")
        for language, count in lines.most_common(8)
    ]
    page.table(("language", "files", "lines", "share"), rows)


def _layout(page: DerivedPage, facts: Facts) -> None:
    sizes: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for file in facts.files:
        top = file.path.partition("/")[0] if "/" in file.path else ""
        sizes[top] += file.lines
        numbers[top] += 1
    page.head("Layout")
    for directory, lines in sizes.most_common(_MOST_DIRECTORIES):
        if directory:
            text, cited = purpose(facts, directory)
            what = f": {text}" if text else ""
            page.point(f"`{directory}/` ({many(numbers[directory], 'file')}, {many(lines, 'line')}){what}", *cited)
    if numbers[""]:
        named = [file.path for file in facts.files if "/" not in file.path][:12]
        page.point(f"At the top: {', '.join(f'`{name}`' for name in named)}", (in_file(named[0]), named[0]))


def purpose(facts: Facts, directory: str) -> tuple[str, list[Cited]]:
    """What a directory is for, in the project's own words: its README, the README above, or its first module."""
    inner = facts.readme(directory)
    if inner is not None:
        for block in blocks(facts.texts[inner]):
            if not block.level and not block.code and len(block.text.split()) >= 4:
                return first_sentence(block.text), [_cite(inner, block)]
    told = _told_above(facts, directory)
    if told is not None:
        return told
    speaking = _speaking_for(facts, directory)
    if speaking is not None:
        known = facts.outlines[speaking]
        return known.doc, [(in_file(speaking, *known.doc_lines), known.doc)]
    return "", [(in_file(path), directory) for path in _first_below(facts, directory)]


def _speaking_for(facts: Facts, directory: str) -> str | None:
    """The module whose words are said of the directory: any other file's are of that file alone."""
    inside = [file.path for file in facts.files if file.path.startswith(f"{directory}/")]
    for path in sorted(path for path in inside if path in facts.outlines and facts.outlines[path].doc):
        parent, _, name = path.rpartition("/")
        of_go = name.endswith(".go") and _OF_GO_PACKAGE.match(facts.outlines[path].doc)
        if len(inside) > 1 and name not in _PACKAGE_FILES and not of_go:
            continue
        # `src/` that holds nothing but one package is that package.
        if parent == directory or all(each.startswith(f"{parent}/") for each in inside):
            return path
    return None


def _told_above(facts: Facts, directory: str) -> tuple[str, list[Cited]] | None:
    """A line of a list, tree or table that names the directory and says what it is."""
    name = directory.rsplit("/", 1)[-1]
    names = [directory] if name == directory or not _is_main(facts, directory) else [directory, name]
    naming = re.compile(
        rf"^[\s│├└─|*+`-]*(?:{'|'.join(map(re.escape, names))})(?:/?`|/|(?=\s))\s*"
        r"(?:[-–—:|#]+\s|\s{2,}|\b(?:is|holds|contains)\s)\s*(.+)$"
    )
    documents = [path for path in (facts.readme(), *_documents(facts)) if path is not None]
    for path in documents:
        for number, line in enumerate(facts.texts[path], 1):
            found = naming.match(line) if name in line else None
            words = found[1].strip(" |#*`") if found else ""
            if len(words.split()) >= 2 and any(letter.isalpha() for letter in words):
                return first_sentence(words).rstrip(":"), [(in_file(path, number), line.strip())]
    return None


def _is_main(facts: Facts, directory: str) -> bool:
    """Whether a bare name most likely means this directory: it is the largest component called so."""
    name = directory.rsplit("/", 1)[-1]
    called = [component.path for component in facts.components.all if component.path.rsplit("/", 1)[-1] == name]
    return not called or called[0] == directory


def _documents(facts: Facts) -> list[str]:
    return sorted(
        path for path in facts.texts if re.search(r"(?:architecture|design|overview|contributing)", path, re.I)
    )


def _first_below(facts: Facts, directory: str) -> list[str]:
    return [file.path for file in facts.files if file.path.startswith(f"{directory}/")][:1]


def _starts(page: DerivedPage, facts: Facts) -> None:
    found: list[tuple[str, Cited]] = []
    for manifest in _own(facts):
        for entry in manifest.entry_points:
            text = f"`{entry.name}` → `{entry.text}`"
            found.append((text, (in_file(manifest.path, entry.line), f"{entry.name} {entry.text}")))
    named = (file.path for file in facts.files if _STARTS.search(file.path) and not _BESIDE.search(file.path))
    starts = sorted(named, key=lambda path: (path.count("/"), path))
    for path in starts[:8]:
        known = facts.outlines.get(path)
        said = f": {known.doc}" if known and known.doc else ""
        lines = known.doc_lines if known and known.doc else (None, None)
        found.append((f"`{path}`{said}", (in_file(path, *lines), f"{path} {said}")))
    for path in sorted(facts.texts):
        if posixpath.basename(path).startswith("Dockerfile"):
            for number, line in enumerate(facts.texts[path], 1):
                if re.match(r"\s*(?:ENTRYPOINT|CMD)\b", line):
                    found.append((f"container: `{shortened(line.strip(), 120)}`", (in_file(path, number), line)))
    if found:
        page.head("Where it begins")
        for text, cited in found[:14]:
            page.point(text, cited)


def _dependencies(page: DerivedPage, facts: Facts) -> None:
    used = {name.lower().replace("-", "_"): count for name, count in facts.dependencies.external.items()}
    found = []
    seen: set[tuple[str, str]] = set()
    for manifest in _own(facts):
        for each in manifest.dependencies:
            if (manifest.ecosystem, each.name) in seen:
                # Each package of a workspace lists it again.
                continue
            seen.add((manifest.ecosystem, each.name))
            count = used.get(each.name.lower().replace("-", "_"), 0)
            found.append((-count, each.name, manifest, each.line))
    if not found:
        return
    page.head("Main dependencies")
    for count, name, manifest, line in sorted(found, key=lambda each: each[:2])[:_MOST_DEPENDENCIES]:
        noun = "time" if count == -1 else "times"
        often = f", imported {-count} {noun}" if count else ""
        page.point(f"`{name}` ({manifest.ecosystem}{often})", (in_file(manifest.path, line), name))


def _own(facts: Facts) -> list[Manifest]:
    """The manifests of the project; those of its examples and tests need what it does not."""
    own = [manifest for manifest in facts.manifests if not _BESIDE.search(manifest.path)]
    # What a package needs is said by its own manifest; a list beside it is for those who develop it.
    packaged = {(each.ecosystem, each.directory) for each in own if not each.is_list}
    return [each for each in own if not each.is_list or (each.ecosystem, each.directory) not in packaged]


def _how(page: DerivedPage, facts: Facts) -> None:
    found: list[tuple[str, Cited]] = [*_told_how(facts), *_targets(facts)]
    for manifest in facts.manifests:
        for command in manifest.commands:
            if command.name.removeprefix("npm run ").split(":")[0] in _TELLING_TARGETS:
                said = f"{command.name} {command.text}"
                found.append(
                    (
                        f"`{command.name}` runs `{shortened(command.text, 120)}`",
                        (in_file(manifest.path, command.line), said),
                    )
                )
    for file in facts.files:
        if _WORKFLOW.match(file.path):
            found.append((f"Checked by `{file.path}`", (in_file(file.path), file.path)))
    if found:
        page.head("How to build and test")
        for text, cited in found[:20]:
            page.point(text, cited)


def _told_how(facts: Facts) -> Iterator[tuple[str, Cited]]:
    """Commands that the README or the guide for contributors gives."""
    readme = facts.readme()
    guides = [path for path in sorted(facts.texts) if re.search(r"(?:^|/)contributing\.", path, re.I)]
    for path in dict.fromkeys(
        path for path in (readme, *guides) if path is not None and (path == readme or not is_readme(path))
    ):
        given = 0
        for block in blocks(facts.texts[path]):
            if block.code and _HOW.search(block.heading) and given < 5:
                commands = [line.strip().removeprefix("$ ") for line in block.text.splitlines() if line.strip()]
                commands = [line for line in commands if not line.startswith("#")]
                if commands:
                    given += 1
                    shown = "; ".join(f"`{shortened(line, 100)}`" for line in commands[:4])
                    yield f"{block.heading}: {shown}", _cite(path, block)


def _targets(facts: Facts) -> Iterator[tuple[str, Cited]]:
    for path in ("Makefile", "GNUmakefile", "makefile"):
        for number, line in enumerate(facts.texts.get(path, ()), 1):
            target = _TARGET.match(line)
            if target and target[1] in _TELLING_TARGETS:
                yield f"`make {target[1]}`", (in_file(path, number), line)


def _cite(path: str, block: DocumentBlock) -> Cited:
    return in_file(path, block.start_line, block.end_line), block.text
