"""Owns the hot spots: files that change often and are large, where mistakes are likely and costly."""

from holdfast.features.synthesis.findings.page import DerivedPage
from holdfast.features.synthesis.model import FindingDraft, in_commit, in_file
from holdfast.features.synthesis.sources.components import is_code
from holdfast.features.synthesis.sources.facts import Facts

MOST = 20
_LEAST_COMMITS = 2


def hot_spots(facts: Facts) -> FindingDraft | None:
    """The page; None while nothing changed twice."""
    found = []
    for file in facts.files:
        known = facts.history.files.get(file.path)
        if known is not None and known.commits >= _LEAST_COMMITS and file.lines and is_code(file):
            found.append((known.weight * file.lines, file, known))
    if not found:
        return None
    found.sort(key=lambda spot: (-spot[0], spot[1].path))
    top = found[0][0] or 1.0
    page = DerivedPage(facts.repository, "hot_spots")
    page.head("Where changes gather")
    page.say(
        "Churn is the number of commits, a recent one counting 1 and one of half a year ago ½; "
        "heat is churn × lines, the hottest file being 100."
    )
    page.gap()
    rows = [
        (
            str(number),
            f"`{file.path}`{page.marks([(in_file(file.path), file.path)])}",
            f"{100 * heat / top:.0f}",
            f"{known.weight:.1f}",
            f"{known.commits:,}",
            f"{file.lines:,}",
            f"{known.lines:,}",
            f"{known.last[:7]}{page.marks([(in_commit(known.last), file.path)])}",
        )
        for number, (heat, file, known) in enumerate(found[:MOST], 1)
    ]
    page.table(("", "file", "heat", "churn", "commits", "lines", "lines changed", "last change"), rows)
    fixed = [(file, known) for _, file, known in found[:MOST] if known.fixes]
    if fixed:
        page.head("Last fixes there")
        for file, known in fixed:
            for sha, subject in known.fixes:
                page.point(f"`{file.path}`: {subject}", (in_commit(sha), subject))
    return page.draft()
