"""Owns the proof that nothing in a repository breaks, stalls or leaks through synthesis."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.synthesis.sources import cues
from holdfast.features.synthesis.sources.adr import parse_adr
from holdfast.features.synthesis.sources.codeowners import matches, parse_code_owners
from holdfast.features.synthesis.sources.manifests import parse_manifest
from holdfast.features.synthesis.sources.outline import LANGUAGES, outline
from holdfast.features.synthesis.sources.quoting import blocks, plain, sentences
from holdfast.storage.database import Database
from tests.features.synthesis.shop import findings, last_job, synthesised
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import repository_world
from tests.support.properties import examples

TEXT = st.text(st.sampled_from("ab Z.#*`-_|<>![](){}\"'\n\t:=@$%\\/é\u200b0"), max_size=400)
TOKEN = "ghp_" + "a1B2" * 10


@given(TEXT, st.sampled_from(sorted(LANGUAGES)))
@examples(150)
def test_any_text_is_read_somehow(text: str, language: str) -> None:
    lines = text.split("\n")
    for block in blocks(lines):
        assert 1 <= block.start_line <= block.end_line <= len(lines)
    made = outline(language, lines)
    assert all(1 <= term.start_line <= term.end_line <= len(lines) for term in made.terms)
    list(sentences(text))
    cues.tell(text, text)
    cues.reverted(text, text)
    parse_adr("docs/adr/0001-x.md", lines)
    parse_code_owners("CODEOWNERS", lines).rules_for("src/a.py")
    for name in ("package.json", "pyproject.toml", "Cargo.toml", "go.mod"):
        parse_manifest(name, lines)


def test_patterns_and_texts_made_to_stall_do_not() -> None:
    assert not matches("*a" * 40 + "b", "a" * 2_000)
    assert not matches("/".join(["**", "a"] * 30) + "/b", "/".join(["a"] * 300))
    assert plain("<!--" * 20_000) != ""
    plain("[" * 50_000)
    cues.tell("a-" * 5_000, "replace " * 2_000 + "instead of " * 2_000)
    outline("typescript", ["/*" + " " * 900] * 400)
    outline("python", ["from " + "." * 900] * 400)


@pytest.mark.slow
async def test_a_repository_made_to_break_it_is_summed_up(
    sqlite_database: Database, clock: MovableClock, tmp_path: Path
) -> None:
    repo = GitRepo(tmp_path / "odd")
    repo.write(b"src/caf\xe9|`x`.py", b'"""A caf\xe9."""\nclass Menu:\n    """What we serve today, all of it."""\n')
    repo.commit("", {"README.md": b"# \xff\xfe\x00binary\n", "CODEOWNERS": b"\x00\x01", "docs/adr/0001-empty.md": ""})
    repo.commit(
        f"Use tokens instead of passwords\n\nWe decided on {TOKEN} because it works.".encode(),
        {
            "docs/guide.md": f"# Guide\n\nThe token {TOKEN} is the key of everything.\n",
            "pyproject.toml": "[project\nname=",
            "src/b.py": f'"""Uses {TOKEN} for everything we do."""\n',
        },
    )
    repo.commit("Remplacer «A» instead of «B» parce que \xe9t\xe9".encode("latin-1"), {"src/b.py": "x = 1\n" * 10})
    odd = "Use ](javascript:x) | <script> instead of `sane` things\n\nBecause those were too slow."
    repo.commit(odd, {"src/b.py": "x = 2\n" * 10})
    repo.tag("weird/tag|name")
    async with repository_world(sqlite_database, clock, tmp_path / "data", synthesis=True) as here:
        row = await synthesised(here, repo, "odd")
        assert (row.synthesis_status, (await last_job(here)).attempts) == ("completed", 1)
        found = await findings(here, slug="odd")
        assert not any(TOKEN in f"{each.title} {each.body}" for each in found.values())
        assert "tag:weird/tag|name" in found
        assert "Use ](javascript:x) | <script> instead of `sane` things" in {each.title for each in found.values()}
        kept = await here.services.database.read(lambda tx: tx.all("SELECT outline FROM repository_outline"))
        assert not any(TOKEN in str(each["outline"]) for each in kept)
