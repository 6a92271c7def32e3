"""What GitHub and GitLab keep beside the code, against strict fakes: pages, limits, faults, renames, deleted people."""

from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import NotFound, RateLimited, UpstreamFailed
from holdfast.engines.code_hosts.github_history import GitHubHistory
from holdfast.engines.code_hosts.gitlab_history import GitLabHistory
from holdfast.engines.code_hosts.history import Token
from holdfast.engines.fetch.network.guard import FetchFailed, Guard
from tests.engines.code_hosts.reading import YEAR, Waits, read
from tests.fakes.code_hosts.github import FakeGitHub
from tests.fakes.code_hosts.github_history import at, problem
from tests.fakes.code_hosts.gitlab import PROJECT, FakeGitLab
from tests.fakes.web import content, site
from tests.support.access.credentials import credential
from tests.support.properties import examples


@pytest.mark.contract("KS-2")
async def test_a_pull_request_comes_with_reviews_comments_and_files(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    hub.history.pull(5, 10, merged=True, files=["src/tides.py", "docs/a.md"])
    hub.history.issue(6, 20)
    hub.history.comment(5, "Looks wet", 12)
    hub.history.review(5, "CHANGES_REQUESTED", "Not like that", 13)
    hub.history.review(5, "COMMENTED", "", 14)
    hub.history.review(5, "PENDING", "unsent", 15)
    hub.history.code_comment(5, "Why 12?", "src/tides.py", 33, 11)
    hub.history.code_comment(5, "Outdated", "src/tides.py", None, 16)
    (pull,) = await read(on_hub, "pull_request")
    assert (pull.number, pull.state, pull.title, pull.author, pull.labels) == ("5", "merged", "Pull 5", "ada", ("bug",))
    assert pull.files == ("src/tides.py", "docs/a.md")
    assert (pull.commit, pull.merged_at) == (f"{5:040x}", YEAR + 10_000)
    assert [(remark.kind, remark.body, remark.path, remark.line) for remark in pull.remarks] == [
        ("review", "Why 12?", "src/tides.py", 33),
        ("comment", "Looks wet", "", None),
        ("review", "Changes requested: Not like that", "", None),
        ("review", "Outdated", "src/tides.py", 7),
    ]


@pytest.mark.contract("KS-2")
async def test_issues_come_with_their_comments_the_longest_unchanged_first(
    hub: FakeGitHub, on_hub: GitHubHistory
) -> None:
    hub.history.issue(1, 30, state="closed", closed_at=at(30))
    hub.history.issue(2, 10)
    hub.history.pull(3, 20)
    hub.history.comment(1, "Mended", 40, author="dependabot[bot]")
    found = await read(on_hub, "issue")
    assert [(item.number, item.updated_at) for item in found] == [("2", YEAR + 10_000), ("1", YEAR + 40_000)]
    assert (found[1].state, found[1].closed_at, found[1].remarks[0].author) == (
        "closed",
        YEAR + 30_000,
        "dependabot[bot]",
    )
    assert found[0].url.endswith("/octo/tides/issues/2")
    # No comments, no request for them.
    assert not any("issues/2/comments" in asked for asked in hub.asked)


async def test_a_second_look_asks_only_for_what_changed(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    for number in range(1, 8):
        hub.history.issue(number, number)
    first = await read(on_hub, "issue")
    since = first[-1].updated_at
    kept = {(item.number, item.updated_at) for item in first}

    async def known(number: str, updated_at: int) -> bool:
        return (number, updated_at) in kept

    hub.asked.clear()
    assert await read(on_hub, "issue", since, known=known) == []
    assert len(hub.asked) == 1
    hub.history.comment(3, "Still so", 50)
    assert [item.number for item in await read(on_hub, "issue", since, known=known)] == ["3"]
    assert "since=2026-01-01T00%3A00%3A07Z" in hub.asked[1]


async def test_nothing_is_lost_or_repeated_while_the_list_changes_between_pages(
    hub: FakeGitHub, on_hub: GitHubHistory
) -> None:
    for number in range(1, 31):
        hub.history.issue(number, number)
    hub.history.page_size = 5
    lists = 0

    def touch() -> None:
        nonlocal lists
        lists += 1
        if lists == 2:
            # It moves to the end, and everything behind it moves up by one.
            hub.history.issues[2]["updated_at"] = at(100)
            del hub.history.issues[20]

    hub.history.before_list = touch
    found = [item.number for item in await read(on_hub, "issue")]
    assert found == [*(str(number) for number in range(1, 31) if number != 20), "2"]


async def test_more_entries_of_one_second_than_a_page_holds_are_all_read(
    hub: FakeGitHub, on_hub: GitHubHistory
) -> None:
    for number in range(1, 24):
        hub.history.issue(number, 7)
    hub.history.page_size = 5
    assert [item.number for item in await read(on_hub, "issue")] == [str(number) for number in range(1, 24)]
    assert any("/repositories/1/issues" in asked for asked in hub.asked)


async def test_one_that_changes_among_many_of_one_second_hides_no_other(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    for number in range(1, 15):
        hub.history.issue(number, 7)
    hub.history.page_size = 5
    lists = 0

    def touch() -> None:
        nonlocal lists
        lists += 1
        if lists == 3:
            # The second page by number begins one entry too late now.
            hub.history.issues[1]["updated_at"] = at(50)

    hub.history.before_list = touch
    found = [item.number for item in await read(on_hub, "issue")]
    assert set(found) == {str(number) for number in range(1, 15)}
    assert found.count("1") == 2


async def test_long_lists_below_an_item_are_paged(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    hub.history.pull(1, 1, files=[f"file{number}.py" for number in range(240)])
    for number in range(130):
        hub.history.comment(1, f"Comment {number}", number)
    (pull,) = await read(on_hub, "pull_request")
    assert len(pull.files) == 240
    assert [remark.body for remark in pull.remarks] == [f"Comment {number}" for number in range(130)]


async def test_deleted_people_null_bodies_and_very_long_ones_are_read(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    hub.history.issue(1, 1, author=None, body=None, labels=["old spelling", {"name": None}])
    hub.history.issue(2, 2, body="x" * 70_000 + "\0end")
    hub.history.comment(2, "gone", 3, author=None)
    first, second = await read(on_hub, "issue")
    assert (first.author, first.body, first.labels) == ("ghost", "", ("old spelling",))
    assert second.body == "x" * 70_000 + "end"
    assert second.remarks[0].author == "ghost"


async def test_an_issue_that_vanishes_after_it_was_listed_is_left_out(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    hub.history.pull(1, 1)
    hub.history.pull(2, 2)
    del hub.history.pulls[1]
    assert [item.number for item in await read(on_hub, "pull_request")] == ["2"]


async def test_a_renamed_repository_is_followed(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    hub.history.issue(1, 1)
    hub.history.discussion(4, 4)
    assert [item.number for item in await read(on_hub, "issue", name="octo/renamed")] == ["1"]
    assert [item.number for item in await read(on_hub, "discussion", name="octo/renamed")] == ["4"]


async def test_releases_say_what_they_stand_on(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    hub.history.release("v1", 10, name="First", target_commitish="a" * 40)
    hub.history.release("v2", 20, prerelease=True, author=None)
    hub.history.release("v3", 30, draft=True, published_at=None)
    hub.history.page_size = 2
    found = await read(on_hub, "release")
    assert [(item.number, item.title, item.state) for item in found] == [
        ("v3", "v3", "draft"),
        ("v1", "First", "published"),
        ("v2", "v2", "prerelease"),
    ]
    assert (found[1].commit, found[2].commit, found[2].author) == ("a" * 40, "", "ghost")


async def test_discussions_come_with_threads_and_answers(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    make = hub.history.discussion_comment
    reply = {"id": "DC_r", "body": "Indeed", "createdAt": at(9), "author": {"__typename": "User", "login": "grace"}}
    comments = [make("Use the moon", 5, reply, answer=True), make("From a bot", 6, bot=True)]
    comments += [make(f"More {number}", 20 + number) for number in range(4)]
    hub.history.discussion(8, 40, comments, isAnswered=True)
    hub.history.discussion(9, 30)
    hub.history.page_size = 2
    first, second = await read(on_hub, "discussion")
    assert (first.number, first.state, first.labels) == ("9", "open", ("Ideas",))
    assert (second.number, second.state) == ("8", "answered")
    assert [(remark.author, remark.body) for remark in second.remarks][:3] == [
        ("ghost", "Answer: Use the moon"),
        ("helper[bot]", "From a bot"),
        ("grace", "Indeed"),
    ]
    assert len(second.remarks) == 7
    assert [item.number for item in await read(on_hub, "discussion", YEAR + 31_000)] == ["8"]


@pytest.mark.parametrize(
    "error",
    [
        {"type": "FORBIDDEN", "message": "Resource not accessible by personal access token"},
        {"message": "Field 'discussions' doesn't exist on type 'Repository'", "extensions": {"code": "undefinedField"}},
    ],
)
async def test_a_host_without_discussions_has_none(
    error: dict[str, Any], hub: FakeGitHub, on_hub: GitHubHistory
) -> None:
    hub.history.discussion(1, 1)
    hub.history.discussions_enabled = False
    assert await read(on_hub, "discussion") == []
    hub.history.graphql_errors = [error]
    assert await read(on_hub, "discussion") == []
    hub.history.graphql_errors = [{"message": "Something went wrong"}]
    with pytest.raises(UpstreamFailed, match="Something went wrong"):
        await read(on_hub, "discussion")


async def test_issues_that_are_switched_off_are_none(
    hub: FakeGitHub, on_hub: GitHubHistory, lab: FakeGitLab, on_lab: GitLabHistory
) -> None:
    hub.history.issues_enabled = lab.history.issues_enabled = False
    assert await read(on_hub, "issue") == []
    assert await read(on_lab, "issue", name=PROJECT) == []
    assert await read(on_lab, "discussion", name=PROJECT) == []


async def test_limits_are_waited_out_up_to_a_bound(hub: FakeGitHub, on_hub: GitHubHistory, waits: Waits) -> None:
    hub.history.issue(1, 1)
    hub.faults = [
        problem(403, "You have exceeded a secondary rate limit.", **{"Retry-After": "33"}),
        problem(429, "You have exceeded a secondary rate limit. Please wait."),
    ]
    assert len(await read(on_hub, "issue")) == 1
    assert waits.seconds == [33, 60]
    hub.left = 0
    with pytest.raises(RateLimited) as caught:
        await read(on_hub, "issue")
    assert int(caught.value.headers["Retry-After"]) > 1_000_000
    assert waits.seconds == [33, 60]


async def test_a_limit_inside_graphql_is_waited_out(hub: FakeGitHub, on_hub: GitHubHistory, waits: Waits) -> None:
    hub.history.discussion(1, 1)
    limit = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}
    hub.faults = [web.json_response(limit)]
    assert len(await read(on_hub, "discussion")) == 1
    assert waits.seconds == [60]
    hub.faults = [web.json_response(limit), web.json_response(limit)]
    with pytest.raises(RateLimited):
        await read(on_hub, "discussion")


async def test_a_faltering_host_is_tried_again_and_then_told(
    hub: FakeGitHub, on_hub: GitHubHistory, waits: Waits
) -> None:
    hub.history.issue(1, 1)
    hub.faults = [web.Response(status=502, text="<html>"), web.Response(status=503)]
    assert len(await read(on_hub, "issue")) == 1
    assert waits.seconds == [1, 2]
    hub.faults = [web.Response(status=500) for _ in range(4)]
    with pytest.raises(UpstreamFailed, match="GitHub answered 500"):
        await read(on_hub, "issue")
    assert hub.faults == []


async def test_a_host_that_is_away_is_tried_again_and_then_told(waits: Waits) -> None:
    async with site() as away:
        url = away.url(host="127.0.0.1")
    history = GitHubHistory(Guard(), Token(credential("t", url), "the token"), base_url=url, sleep=waits)
    with pytest.raises(FetchFailed):
        await read(history, "issue")
    assert waits.seconds == [1, 2, 4]


async def test_a_hidden_repository_and_a_bad_token_are_told_with_the_tokens_name(
    hub: FakeGitHub, on_hub: GitHubHistory, lab: FakeGitLab, on_lab: GitLabHistory, waits: Waits
) -> None:
    for kind in ("issue", "pull_request", "release", "discussion"):
        with pytest.raises(NotFound, match="absent") as hidden:
            await read(on_hub, kind, name="octo/absent")
        assert "the secret HUB" in hidden.value.message
    with pytest.raises(NotFound) as hidden:
        await read(on_lab, "issue", name="sea/absent")
    assert "the secret LAB" in hidden.value.message
    wrong = GitHubHistory(Guard(), Token(credential("wrong", hub.url), "the secret OLD"), base_url=hub.url, sleep=waits)
    with pytest.raises(UpstreamFailed, match="the secret OLD") as refused:
        await read(wrong, "issue")
    assert "wrong" not in refused.value.message
    assert "wrong" not in repr(Token(credential("wrong", hub.url), "x"))
    lab.faults = [web.json_response({"error": "insufficient_scope"}, status=403)]
    with pytest.raises(UpstreamFailed, match="the secret LAB"):
        await read(on_lab, "issue", name=PROJECT)


async def test_the_token_goes_to_no_other_host(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    async with site() as elsewhere:
        elsewhere.pages["/a"] = elsewhere.pages["/b"] = content(b"[]", "application/json")
        hub.faults = [web.Response(status=301, headers={"Location": elsewhere.url("/a", host="127.0.0.1")})]
        with pytest.raises(Exception, match=r"not on the public internet|answered"):
            await read(on_hub, "issue")
        link = f'<{elsewhere.url("/b", host="127.0.0.1")}>; rel="next"'
        hub.faults = [web.json_response([{"id": 1, "number": 1, "updated_at": at(1)}], headers={"Link": link})]
        hub.history.issue(1, 1)
        with pytest.raises(UpstreamFailed, match="outside"):
            await read(on_hub, "release")
        assert all("Authorization" not in headers for headers in elsewhere.headers)


async def test_a_page_that_repeats_for_ever_ends(hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    entry = {"id": 1, "tag_name": "v1", "created_at": at(1)}
    link = {"Link": f'<{hub.url}/repos/octo/tides/releases?page=2>; rel="next"'}
    hub.faults = [web.json_response([entry], headers=link) for _ in range(3)]
    assert len(await read(on_hub, "release")) == 1
    assert len(hub.faults) == 1


@pytest.mark.parametrize("body", [b"<html>", b'{"message": "surprise"}'])
async def test_an_answer_that_is_no_list_is_told(body: bytes, hub: FakeGitHub, on_hub: GitHubHistory) -> None:
    hub.faults = [web.Response(body=body, content_type="application/json")]
    with pytest.raises(UpstreamFailed):
        await read(on_hub, "issue")


@given(
    moments=st.lists(st.integers(1, 4), min_size=1, max_size=25),
    changes=st.lists(st.tuples(st.integers(0, 24), st.booleans()), max_size=25),
    page_size=st.integers(1, 7),
)
@examples(50)
async def test_whatever_changes_while_paging_the_last_state_of_each_is_read(
    moments: list[int],
    changes: list[tuple[int, bool]],
    page_size: int,
    hub: FakeGitHub,
    on_hub: GitHubHistory,
) -> None:
    hub.history.issues.clear()
    hub.asked.clear()
    hub.left = 100_000
    for number, second in enumerate(moments):
        hub.history.issue(number, second)
    pending = list(enumerate(changes))

    def change() -> None:
        for _ in range(min(2, len(pending))):
            turn, (number, gone) = pending.pop(0)
            if number in hub.history.issues and gone:
                del hub.history.issues[number]
            elif number in hub.history.issues:
                hub.history.issues[number]["updated_at"] = at(100 + turn)

    hub.history.page_size, hub.history.before_list = page_size, change
    read_last = {item.number: item.updated_at async for item in on_hub.items("octo/tides", "issue")}
    for number, issue in hub.history.issues.items():
        assert at((read_last[str(number)] - YEAR) // 1_000) == issue["updated_at"]
