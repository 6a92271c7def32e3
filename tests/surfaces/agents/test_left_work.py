"""Proves that a session's result says what its agent truly left, however its worktree and repository look."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.agents.conftest import Agency, speaking
from tests.surfaces.agents.test_sessions import repository

pytestmark = [pytest.mark.slow, pytest.mark.contract("XA-6")]

GIT = """
def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()
def put(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    open(path, "w").write(text)
base = git("rev-parse", "HEAD")
"""


async def _left(house: Agency, tmp_path: Path, *lines: str) -> tuple[dict[str, Any], str, list[str]]:
    """The result of an agent that does this, its patch, and what is said of what could not be taken over."""
    await repository(house, tmp_path / "origin")
    agent = await house.define(command=speaking(GIT, *lines, "over()"), repository="origin")
    session = await house.start(agent)
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    result = found["result"]
    patch = ""
    if result["patch_artifact"]:
        path = f"/api/workspaces/{house.workspace}/artifacts/{result['patch_artifact']}"
        patch = (await house.client.get(path)).json()["content"]
    return result, patch, [each["data"]["message"] for each in await house.told(session, "error")]


async def test_files_that_are_called_like_revisions_hide_nothing(house: Agency, tmp_path: Path) -> None:
    result, patch, said = await _left(
        house,
        tmp_path,
        "put('HEAD', 'a\\n')",
        "put(base, 'b\\n')",
        "put(f'{base}..HEAD', 'c\\n')",
        "git('add', '-A')",
        "git('commit', '-qm', 'Odd names')",
        "put('--output=x', 'd\\n')",
        "put('new\\nline', 'e\\n')",
    )
    names = {each["path"] for each in result["files"]}
    base = result["base_commit"]
    assert names == {"HEAD", base, f"{base}..HEAD", "--output=x", "new\nline"}
    assert [each["subject"] for each in result["commits"]][-1] == "Odd names" and len(result["commits"]) == 2
    assert "+a" in patch and "+e" in patch and said == []


async def test_replaced_and_grafted_objects_and_settings_do_not_change_what_the_patch_says(
    house: Agency, tmp_path: Path
) -> None:
    result, patch, said = await _left(
        house,
        tmp_path,
        "put('evil.txt', 'evil\\n')",
        "git('add', '-A')",
        "git('commit', '-qm', 'Harmless')",
        "head = git('rev-parse', 'HEAD')",
        "innocent = git('commit-tree', '-p', base, '-m', 'Innocent', base + '^{tree}')",
        "git('replace', head, innocent)",
        "put('.git/info/grafts', head + '\\n')",
        "put('.git/shallow', head + '\\n')",
        "git('config', 'color.ui', 'always')",
        "git('config', 'diff.noprefix', 'true')",
        "git('config', 'diff.external', '/bin/true')",
        "git('config', 'log.showSignature', 'true')",
        "git('config', 'diff.orderFile', '/nowhere')",
        "put('late.txt', 'late\\n')",
    )
    assert [each["path"] for each in result["files"]] == ["evil.txt", "late.txt"]
    assert [each["subject"] for each in result["commits"]][1:] == ["Harmless"]
    assert "diff --git a/evil.txt b/evil.txt" in patch and "\x1b" not in patch and said == []


async def test_nothing_of_the_worktree_runs_when_it_is_looked_at(house: Agency, tmp_path: Path) -> None:
    mark = "put('.git/mark', '#!/bin/sh\\necho ran >> /work/ran\\nexec cat\\n'); os.chmod('.git/mark', 0o755)"
    settings = (
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.sshCommand",
        "gpg.program",
        "core.editor",
    )
    result, _, said = await _left(
        house,
        tmp_path,
        mark,
        "put('.gitattributes', '* filter=evil diff=evil\\n')",
        "put('inner/a.txt', 'a\\n')",
        "subprocess.run(['git', 'init', '-q', 'inner'], check=True)",
        "git('-C', 'inner', 'add', '-A')",
        "git('-C', 'inner', 'commit', '-qm', 'Inner')",
        "git('add', 'inner')",
        "git('commit', '-qm', 'With an inner one')",
        *(
            f"git({where}'config', '{name}', '/work/.git/mark')"
            for name in settings
            for where in ("", "'-C', 'inner', ")
        ),
        "git('config', 'commit.gpgsign', 'true')",
        "[put(f'.git/hooks/{n}', open('.git/mark').read()) or os.chmod(f'.git/hooks/{n}', 0o755) "
        "for n in ('pre-commit', 'post-commit', 'reference-transaction', 'post-index-change')]",
        "put('inner/b.txt', 'b\\n')",
        "put('late.txt', 'late\\n')",
    )
    assert [each["path"] for each in result["files"]] == [".gitattributes", "inner", "late.txt"], said


async def test_what_cannot_be_taken_over_is_told_and_keeps_nothing_else_out(house: Agency, tmp_path: Path) -> None:
    result, _, said = await _left(
        house,
        tmp_path,
        "put('empty/inner.txt', 'not in the result\\n')",
        "subprocess.run(['git', 'init', '-q', 'empty'], check=True)",
        "put('closed.txt', 'closed\\n'); os.chmod('closed.txt', 0)",
        "put('far/away.txt', 'away\\n'); os.chmod('far', 0)",
        "os.symlink('/etc/passwd', 'link')",
        "put('kept.txt', 'kept\\n')",
    )
    assert {each["path"] for each in result["files"]} == {"closed.txt", "far/away.txt", "link", "kept.txt"}
    assert len(said) == 1 and "'empty/' does not have a commit checked out" in said[0], said


async def test_a_repository_that_its_agent_took_away_is_told(house: Agency, tmp_path: Path) -> None:
    result, _, said = await _left(house, tmp_path, "import shutil", "shutil.rmtree('.git')", "put('a.txt', 'a')")
    assert (result["files"], result["head_commit"]) == ([], None)
    assert said == ["Not all that it left could be taken over: Its repository is gone or broken."]


async def test_renames_modes_binaries_links_and_a_detached_head_come_back_as_they_are(
    house: Agency, tmp_path: Path
) -> None:
    result, patch, said = await _left(
        house,
        tmp_path,
        "git('checkout', '-q', '--detach')",
        "git('mv', 'README.md', 'READ ME.md')",
        "git('commit', '-qm', 'Rename\\u2028deadbeef\\tForged')",
        "put('run.sh', '#!/bin/sh\\n'); os.chmod('run.sh', 0o755)",
        "open('bin.dat', 'wb').write(bytes(range(256)) * 8)",
        "os.symlink('run.sh', 'link')",
    )
    assert [(each["path"], each["added"]) for each in result["files"]] == [
        ("READ ME.md", 0),
        ("bin.dat", None),
        ("link", 1),
        ("run.sh", 1),
    ]
    assert len(result["commits"]) == 2 and all(len(each["id"]) == 40 for each in result["commits"]), result["commits"]
    assert said == []
    # The patch does the same to the repository that it is for.
    origin = tmp_path / "origin"
    subprocess.run(["git", "apply", "--index", "-"], cwd=origin, input=patch, text=True, check=True)
    assert (origin / "link").is_symlink() and (origin / "run.sh").stat().st_mode & 0o100
    assert (origin / "bin.dat").read_bytes() == bytes(range(256)) * 8 and not (origin / "README.md").exists()


async def test_more_files_and_commits_than_are_named_are_counted(house: Agency, tmp_path: Path) -> None:
    result, _, said = await _left(
        house,
        tmp_path,
        "[put(f'f{number}.txt', 'x') for number in range(620)]",
        "git('add', '-A')",
        "git('commit', '-qm', 'Many')",
        "[git('commit', '-q', '--allow-empty', '-m', 'Again') for _ in range(110)]",
    )
    assert (len(result["files"]), result["files_total"], said) == (500, 620, [])
    assert (len(result["commits"]), result["commits_total"]) == (100, 111)
