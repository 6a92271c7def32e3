"""What a project on GitLab tells: merge requests with threads and verdicts, issues and releases."""

import pytest
from aiohttp import web

from holdfast.core.errors import RateLimited
from holdfast.engines.code_hosts.gitlab_history import GitLabHistory
from tests.engines.code_hosts.reading import Waits, read
from tests.fakes.code_hosts.github_history import at
from tests.fakes.code_hosts.gitlab import PROJECT, FakeGitLab


@pytest.mark.contract("KS-2")
async def test_a_merge_request_comes_with_threads_verdicts_and_files(lab: FakeGitLab, on_lab: GitLabHistory) -> None:
    lab.history.merge(3, 10, files=["a.py", "b.py"], state="merged", merged_at=at(10), merge_commit_sha="f" * 40)
    lab.history.note("merge_requests", 3, "Plain words", 11)
    position = {"new_path": "a.py", "new_line": None, "old_path": "a.py", "old_line": 4}
    lab.history.note("merge_requests", 3, "On a line", 12, type="DiffNote", position=position)
    lab.history.note("merge_requests", 3, "approved this merge request", 13, system=True)
    lab.history.note("merge_requests", 3, "added 1 commit", 14, system=True)
    lab.history.note("merge_requests", 3, "For us alone", 15, internal=True)
    lab.history.merge(4, 5, author=None)
    lab.history.merge(6, 8, state="merged", merged_at=at(8))
    first, second, merge = await read(on_lab, "pull_request", name=PROJECT)
    assert (first.number, first.state, first.author, first.commit) == ("4", "open", "ghost", "")
    assert second.commit == f"{6:040x}"
    assert (merge.state, merge.commit, merge.files) == ("merged", "f" * 40, ("a.py", "b.py"))
    assert [(remark.kind, remark.body, remark.path, remark.line) for remark in merge.remarks] == [
        ("comment", "Plain words", "", None),
        ("review", "On a line", "a.py", 4),
        ("review", "approved this merge request", "", None),
    ]


@pytest.mark.contract("KS-2")
async def test_gitlab_issues_page_by_moment_and_confidential_ones_stay_away(
    lab: FakeGitLab, on_lab: GitLabHistory
) -> None:
    for iid in range(1, 26):
        lab.history.issue(iid, 7 if 5 < iid < 18 else iid)
    lab.history.issue(30, 1, confidential=True)
    lab.history.note("issues", 25, "Seen too", 60)
    lab.history.page_size = 5
    found = await read(on_lab, "issue", name=PROJECT)
    assert sorted(int(item.number) for item in found) == list(range(1, 26))
    assert [item.updated_at for item in found] == sorted(item.updated_at for item in found)
    assert found[-1].remarks[0].body == "Seen too"
    lab.asked.clear()
    assert [item.number for item in await read(on_lab, "issue", found[-1].updated_at, name=PROJECT)] == ["25"]
    assert "updated_after=2026-01-01T00%3A01%3A00.000Z" in lab.asked[0]


async def test_gitlab_releases_limits_and_faults(lab: FakeGitLab, on_lab: GitLabHistory, waits: Waits) -> None:
    lab.history.release("v1", 10)
    lab.history.release("v2", 20, upcoming_release=True, author=None)
    lab.faults = [
        web.Response(status=429, text="Retry later", headers={"Retry-After": "5"}),
        web.Response(status=502, text="GitLab is not responding"),
    ]
    found = await read(on_lab, "release", name=PROJECT)
    assert [(item.number, item.state, item.author, item.commit[:1]) for item in found] == [
        ("v1", "published", "ada", "c"),
        ("v2", "draft", "ghost", "c"),
    ]
    assert waits.seconds == [5, 1]
    lab.limited = True
    with pytest.raises(RateLimited, match="in 44 seconds"):
        await read(on_lab, "issue", name=PROJECT)
    assert waits.seconds == [5, 1, 44, 44]
