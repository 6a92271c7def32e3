"""Owns who knows what: CODEOWNERS where there is one, and who did most of the work lately, by component."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from holdfast.core.text.counting import many
from holdfast.features.synthesis.findings.page import DerivedPage
from holdfast.features.synthesis.model import FindingDraft, in_file
from holdfast.features.synthesis.sources.codeowners import CodeOwners, Rule
from holdfast.features.synthesis.sources.components import ROOT
from holdfast.features.synthesis.sources.facts import Facts
from holdfast.features.synthesis.sources.history import Share, merged

_SHOWN = 20
_PEOPLE = 3


def owners(facts: Facts) -> FindingDraft | None:
    """The page; None where nobody is known."""
    people = {path: shares for path, shares in facts.history.people.items() if shares}
    if not people and facts.code_owners is None:
        return None
    page = DerivedPage(facts.repository, "owners")
    if people:
        _overall(page, merged(people))
        _by_component(page, facts, people)
    if facts.code_owners is not None:
        _named(page, facts, facts.code_owners)
    return page.draft()


def bus_factor(shares: Mapping[str, Share]) -> int:
    """How few people did more than half of the work, recent work counting more."""
    weights = sorted((share.weight for share in shares.values()), reverse=True)
    half, done = sum(weights) / 2, 0.0
    for count, weight in enumerate(weights, 1):
        done += weight
        if done > half:
            return count
    return len(weights)


def _overall(page: DerivedPage, shares: Mapping[str, Share]) -> None:
    page.head("Who works on it")
    total = sum(share.weight for share in shares.values()) or 1.0
    page.say(
        f"Bus factor {bus_factor(shares)}: so few people did more than half of the work, "
        "a year-old line counting a quarter of a recent one."
    )
    page.gap()
    ranked = sorted(shares.items(), key=lambda each: (-each[1].weight, each[0]))
    rows = [(name, f"{100 * share.weight / total:.0f} %", f"{share.lines:,}") for name, share in ranked[:10]]
    page.table(("person", "share", "lines changed"), rows)


def _by_component(page: DerivedPage, facts: Facts, people: Mapping[str, Mapping[str, Share]]) -> None:
    page.head("By component")
    rows = []
    for component in facts.components.all[:_SHOWN]:
        shares = people.get(component.path)
        if not shares:
            continue
        total = sum(share.weight for share in shares.values()) or 1.0
        ranked = sorted(shares.items(), key=lambda each: (-each[1].weight, each[0]))[:_PEOPLE]
        shown = ", ".join(
            f"{name} ({100 * share.weight / total:.0f} %, {many(share.commits, 'commit')})" for name, share in ranked
        )
        place = "top level" if component.path == ROOT else component.path
        sample = max(
            (path for path, home in facts.components.of_path.items() if home == component.path),
            key=lambda path: (facts.history.files[path].weight if path in facts.history.files else 0.0, path),
        )
        rows.append((f"`{place}`{page.marks([(in_file(sample), place)])}", shown, str(bus_factor(shares))))
    page.table(("component", "who did most", "bus factor"), rows)


def _named(page: DerivedPage, facts: Facts, code_owners: CodeOwners) -> None:
    """What CODEOWNERS says of each component: the rules that speak for its files."""
    speaking: dict[str, Counter[Rule]] = defaultdict(Counter)
    nobody: Counter[str] = Counter()
    for path, home in facts.components.of_path.items():
        found = [rule for rule in code_owners.rules_for(path) if rule.owners]
        speaking[home].update(found)
        nobody[home] += not found
    page.head("By CODEOWNERS")
    for component in facts.components.all[:_SHOWN]:
        place = "top level" if component.path == ROOT else component.path
        rules = speaking[component.path]
        if not rules:
            continue
        names: Counter[str] = Counter()
        for rule, count in rules.items():
            names.update(dict.fromkeys(rule.owners, count))
        said = ", ".join(f"{name} ({many(count, 'file')})" for name, count in names.most_common(4))
        cited = [
            (in_file(code_owners.path, rule.line), f"{rule.pattern} {' '.join(rule.owners)}")
            for rule, _ in rules.most_common(3)
        ]
        free = f"; {many(nobody[component.path], 'file')} without an owner" if nobody[component.path] else ""
        page.point(f"`{place}`: {said}{free}", *cited)
