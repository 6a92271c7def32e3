"""GitHub and GitLab: the three modes against strict fakes, limits, renames, and names that mean something else."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from holdfast.core.errors import Invalid, NotFound, RateLimited, UpstreamFailed
from holdfast.engines.code_hosts.engine import CodeSearch
from holdfast.engines.code_hosts.github import GitHub
from holdfast.engines.code_hosts.gitlab import GitLab
from holdfast.engines.code_hosts.model import CHARACTERS
from holdfast.engines.fetch.network.guard import Guard
from tests.fakes.code_hosts import github as fake_github
from tests.fakes.code_hosts import gitlab as fake_gitlab
from tests.fakes.code_hosts.github import FakeGitHub
from tests.fakes.code_hosts.gitlab import PROJECT, FakeGitLab

FILES = {
    "README.md": b"# Tides\n\nTables of the sea.",
    "src/tides.py": b"def rise():\n    return 'tide'\n",
    "src/moon.py": b"PULL = 'tide'\n",
    "src/deep/er/sun.py": b"tide = 1\n",
    "docs/a b.md": b"tide in docs",
    "logo.png": b"\x89PNG\0\0\0",
}


@pytest.fixture
async def hub() -> AsyncIterator[FakeGitHub]:
    async with fake_github.github() as made:
        made.files = dict(FILES)
        yield made


@pytest.fixture
async def lab() -> AsyncIterator[FakeGitLab]:
    async with fake_gitlab.gitlab() as made:
        made.files = dict(FILES)
        yield made


def on_github(hub: FakeGitHub, token: str | None = fake_github.TOKEN) -> CodeSearch:
    return CodeSearch(GitHub(Guard(), token=token, base_url=hub.url))


def on_gitlab(lab: FakeGitLab, token: str | None = fake_gitlab.TOKEN) -> CodeSearch:
    return CodeSearch(GitLab(Guard(), token=token, base_url=lab.url))


@pytest.mark.contract("XS-T3")
async def test_github_search_gives_snippets_and_the_first_three_files_whole(hub: FakeGitHub) -> None:
    found = await on_github(hub).search("tide", language="python", max_results=4)
    assert found.total == 4
    assert [hit.content is not None for hit in found.results] == [True, True, True, False]
    assert (found.results[0].path, found.results[0].content) == ("src/tides.py", "def rise():\n    return 'tide'\n")
    assert found.results[0].snippets == ("… tide …",)
    assert found.results[0].url.startswith("https://github.com/octo/tides/blob/")
    assert "language%3Apython" in hub.asked[0]


@pytest.mark.contract("XS-T3")
async def test_github_review_gives_a_repository_at_a_glance(hub: FakeGitHub) -> None:
    found = await on_github(hub, token=None).overview("octo/tides")
    assert (found.repository, found.stars, found.license) == ("octo/tides", 321, "Apache-2.0")
    assert found.languages == {"Python": 75.0, "Shell": 25.0}
    assert found.readme.startswith("# Tides")
    assert [entry.path for entry in found.tree[:2]] == ["README.md", "docs"]
    assert len(found.recent_commits) == 10
    assert found.recent_commits[0].message == "Change 0"
    assert not found.tree_truncated


@pytest.mark.contract("XS-T3")
async def test_github_browse_reads_files_and_lists_directories_in_order(hub: FakeGitHub) -> None:
    hub.files["big.txt"] = b"x" * 1_200_000
    paths = ("src/tides.py", "/src/", "docs/a b.md", "logo.png", "absent", "big.txt")
    found = await on_github(hub).read("octo/tides", paths)
    assert [read.kind for read in found] == ["file", "directory", "file", "error", "error", "file"]
    assert [entry.path for entry in found[1].entries] == ["src/deep", "src/moon.py", "src/tides.py"]
    assert "binary" in found[3].content
    assert "not found" in found[4].content
    assert (len(found[5].content), found[5].truncated) == (CHARACTERS // 3, True)


@pytest.mark.parametrize(
    "name", ["octo/tides", "https://github.com/octo/tides", "http://127.0.0.1/octo/tides.git", "octo/renamed"]
)
async def test_a_github_repository_may_be_named_by_its_address_or_an_old_name(name: str, hub: FakeGitHub) -> None:
    if name.startswith("https://github.com"):
        with pytest.raises(Invalid, match="repository"):
            await on_github(hub).overview(name)
    else:
        assert (await on_github(hub).overview(name)).repository == "octo/tides"


async def test_an_empty_github_repository_has_an_overview(hub: FakeGitHub) -> None:
    found = await on_github(hub).overview("octo/empty")
    assert (found.tree, found.recent_commits, found.readme) == ((), (), "")


async def test_githubs_limits_and_refusals_are_told_with_the_moment_to_return(hub: FakeGitHub) -> None:
    with pytest.raises(NotFound, match="octo/absent"):
        await on_github(hub).overview("octo/absent")
    with pytest.raises(UpstreamFailed, match="only with a token"):
        await on_github(hub, token=None).search("tide")
    with pytest.raises(UpstreamFailed, match="credential"):
        await on_github(hub, token="wrong").search("tide")
    with pytest.raises(Invalid, match="did not understand"):
        await on_github(hub).search("repo:octo/tides")
    hub.secondary_limit = True
    with pytest.raises(RateLimited, match="in 33 seconds"):
        await on_github(hub).overview("octo/tides")
    hub.secondary_limit, hub.left = False, 0
    with pytest.raises(RateLimited) as caught:
        await on_github(hub).overview("octo/tides")
    assert int(caught.value.headers["Retry-After"]) > 1_000_000


async def test_a_hit_survives_a_limit_on_reading_its_file(hub: FakeGitHub) -> None:
    hub.left = 2
    found = await on_github(hub).search("tide", max_results=3)
    assert len(found.results) == 3
    assert sum(hit.content is not None for hit in found.results) == 1


@pytest.mark.contract("XS-T4")
async def test_gitlab_search_gives_snippets_and_the_first_three_files_whole(lab: FakeGitLab) -> None:
    found = await on_gitlab(lab).search("tide", language="python")
    assert [hit.path for hit in found.results] == ["src/tides.py", "src/moon.py", "src/deep/er/sun.py"]
    assert all(hit.content for hit in found.results)
    assert found.results[0].url == f"{lab.url}/{PROJECT}/-/blob/main/src/tides.py#L3"


@pytest.mark.contract("XS-T4")
async def test_gitlab_review_pages_through_the_tree(lab: FakeGitLab) -> None:
    lab.files |= {f"many/{number:03}.txt": b"x" for number in range(250)}
    found = await on_gitlab(lab, token=None).overview(f"{lab.url}/{PROJECT}/-/tree/main")
    assert (found.repository, found.license, found.languages["Python"]) == (PROJECT, "mit", 75.0)
    assert found.readme.startswith("# Tides")
    assert len(found.tree) == len(lab.files) + 5
    assert lab.pages == ["1", "2", "3"]
    assert len(found.recent_commits) == 10


@pytest.mark.contract("XS-T4")
async def test_gitlab_browse_reads_files_and_lists_directories(lab: FakeGitLab) -> None:
    found = await on_gitlab(lab).read(PROJECT, ("src", "docs/a b.md", "absent", ""))
    assert [read.kind for read in found] == ["directory", "file", "error", "directory"]
    assert [entry.path for entry in found[0].entries] == ["src/deep", "src/moon.py", "src/tides.py"]
    assert found[1].content == "tide in docs"


async def test_gitlabs_limits_and_refusals_are_told(lab: FakeGitLab) -> None:
    with pytest.raises(NotFound, match="sea/absent"):
        await on_gitlab(lab).overview("sea/absent")
    lab.global_search = False
    with pytest.raises(UpstreamFailed, match="repo:group/project"):
        await on_gitlab(lab).search("tide")
    assert len((await on_gitlab(lab).search(f"tide repo:{PROJECT}")).results) == 4
    lab.limited = True
    with pytest.raises(RateLimited, match="in 44 seconds"):
        await on_gitlab(lab).overview(PROJECT)


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (lambda code: code.search("x" * 257), "query"),
        (lambda code: code.search("x", max_results=31), "max_results"),
        (lambda code: code.search("x", language="a b"), "language"),
        (lambda code: code.overview("a/b/c"), "repository"),
        (lambda code: code.overview("../secrets"), "repository"),
        (lambda code: code.overview("a/b?x=1"), "repository"),
        (lambda code: code.overview("https://gitlab.com/a/b"), "repository"),
        (lambda code: code.read("a/b", tuple(str(number) for number in range(11))), "paths"),
        (lambda code: code.read("a/b", ("../../user",)), "path"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_before_anything_is_sent(
    ask: Callable[[CodeSearch], Awaitable[object]], field: str, hub: FakeGitHub
) -> None:
    with pytest.raises(Invalid) as caught:
        await ask(on_github(hub))
    assert caught.value.fields[0].field == field
    assert hub.asked == []
