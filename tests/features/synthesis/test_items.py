"""Owns the proof of what hosts and tags tell: pull requests and issues that decide, releases, very many tags, bots."""

from dataclasses import replace

import pytest

from holdfast.engines.git.model import Commit, FileChange, Tag
from holdfast.features.repositories.model import Item, Remark, Repository
from holdfast.features.synthesis.findings.decisions import decisions, told
from holdfast.features.synthesis.findings.milestones import MANY, boundaries, changes_since, chosen, milestones, placed
from holdfast.features.synthesis.sources.history import History

REPOSITORY = Repository(
    id="repo_1",
    organization_id="org_1",
    project_id="proj_1",
    workspace_id="ws_1",
    slug="shop",
    name="Shop",
    location="/srv/shop",
    is_local=True,
    state="ready",
    ingested=True,
    last_synced_at=None,
    created_by="usr_1",
    created_by_name="Ada",
    created_at=0,
    updated_at=0,
)
DAY = 86_400_000


def commit(
    number: int, subject: str, body: str = "", *, author: str = "Ada Lovelace", paths: tuple[str, ...] = ()
) -> Commit:
    changes = tuple(FileChange("M", path, insertions=5) for path in paths)
    return Commit(f"{number:040x}", (), author, "a@x.org", number * DAY, number * DAY, subject, body, changes)


def pull(number: str, title: str, body: str = "", **more: object) -> Item:
    fields: dict[str, object] = {
        "kind": "pull_request",
        "number": number,
        "title": title,
        "body": body,
        "state": "merged",
        "author": "grace",
        "url": "",
        "created_at": DAY,
        "updated_at": DAY,
        "merged_at": 2 * DAY,
    }
    return Item(**(fields | more))  # type: ignore[arg-type]


def walked(*commits: Commit, ends: tuple[int, ...] = (), kept: tuple[str, ...] = ()) -> History:
    history = History(["a.py"], lambda path: ".", ends, until=commits[0].committed_at, kept=kept)
    for each in commits:
        history.add(each)
    return history


def test_a_pull_request_and_its_commit_are_one_decision() -> None:
    squashed = commit(9, "Use JSON instead of XML (#12)", "Because browsers read it.")
    found = told(
        replace(
            pull("12", "Use JSON instead of XML", "We decided on JSON because browsers read it."), commit=squashed.sha
        )
    )
    assert found is not None
    drafts = decisions(REPOSITORY, walked(squashed), [], [found], ())
    assert [(draft.key, draft.status, draft.at) for draft in drafts] == [("pull_request:12", "accepted", 2 * DAY)]
    assert [citation.label for citation in drafts[0].citations] == ["#12", squashed.sha[:7]]


@pytest.mark.parametrize(
    ("item", "status"),
    [
        (pull("1", "Replace A with B", state="open", merged_at=None), "proposed"),
        (pull("2", "Replace A with B", state="closed", merged_at=None), "rejected"),
        (pull("3", "Replace A with B"), "accepted"),
        (pull("4", "Which store?", "We decided to use SQLite.", kind="issue", state="closed"), "accepted"),
    ],
)
def test_the_state_of_an_item_is_the_status_of_its_decision(item: Item, status: str) -> None:
    found = told(item)
    assert found is not None and found.status == status


@pytest.mark.parametrize(
    "item",
    [
        pull("5", "Which store?", "We decided to use SQLite.", kind="issue", state="open"),
        pull("6", "It crashes", "because of a null pointer", kind="issue", state="closed"),
        pull("7", "Replace A with B", author="dependabot[bot]"),
        pull("8", "Add a button"),
    ],
)
def test_what_is_open_small_or_by_a_program_decides_nothing(item: Item) -> None:
    assert told(item) is None


def test_what_was_decided_in_a_remark_counts() -> None:
    remarks = (Remark("grace", DAY, "We decided to keep both readers, in favour of old clients."),)
    found = told(pull("9", "Which readers stay?", kind="issue", state="closed", remarks=remarks))
    assert found is not None
    assert found.telling.quotes == ("We decided to keep both readers, in favour of old clients.",)


def test_the_most_telling_come_first_and_what_is_on_record_stays() -> None:
    commits = [commit(1000 - number, f"Use part {number} instead of part {number + 1}") for number in range(400)]
    weak = commit(1, "Keep it simple", "Because it is simple.")
    strong = commit(2, "Move to the new ledger", "We decided on it in favour of speed, instead of the old one.")
    plain = decisions(REPOSITORY, walked(*commits, strong, weak), [], [], ())
    keys = {draft.key for draft in plain}
    assert len(plain) == 60
    assert f"commit:{strong.sha}" in keys and f"commit:{weak.sha}" not in keys
    kept = walked(*commits, strong, weak, kept=(weak.sha,))
    assert f"commit:{weak.sha}" in {draft.key for draft in decisions(REPOSITORY, kept, [], [], {f"commit:{weak.sha}"})}


def test_a_message_with_a_credential_is_passed_over() -> None:
    secret = commit(3, "Use a token instead of a password", "We decided on ghp_" + "a1B2" * 10 + " because it works.")
    assert decisions(REPOSITORY, walked(secret), [], [], ()) == []


def test_programs_own_nothing() -> None:
    history = walked(
        commit(3, "Bump x", author="renovate[bot]", paths=("a.py",)), commit(2, "Write it", paths=("a.py",))
    )
    assert set(history.people["."]) == {"Ada Lovelace"}
    assert history.files["a.py"].commits == 2


def test_a_renamed_file_keeps_its_history() -> None:
    moved = replace(commit(3, "Move it"), changes=(FileChange("R", "a.py", "old.py"),))
    history = walked(moved, commit(2, "Fix it", paths=("old.py",)), commit(1, "Write it", paths=("old.py",)))
    known = history.files["a.py"]
    assert (known.commits, known.added, [subject for _, subject in known.fixes]) == (3, f"{1:040x}", ["Fix it"])


def test_of_very_many_tags_only_major_and_minor_versions_are_milestones() -> None:
    tags = [
        Tag(f"v{major}.{minor}.{patch}", f"{number:040x}", number * DAY)
        for number, (major, minor, patch) in enumerate(
            (major, minor, patch) for major in range(3) for minor in range(5) for patch in range(6)
        )
    ]
    assert len(tags) > MANY
    names = [tag.name for tag in chosen(tags)]
    assert len(names) == 15 and all(name.endswith(".0") for name in names)
    assert len(chosen([Tag(f"nightly-{tag.name}-x", tag.sha, tag.tagged_at) for tag in tags])) == MANY


@pytest.mark.parametrize("swapped", [False, True], ids=["a before b", "b before a"])
def test_tags_whose_commits_share_a_second_keep_what_each_brought(swapped: bool) -> None:
    """A script commits and tags faster than that: only parents tell which came first."""
    subjects = ("Begin", "Add tea", "Add coffee", "Add milk")
    made = [replace(commit(9 - number, subject), committed_at=2 * DAY) for number, subject in enumerate(subjects)]
    first, second, third, later = made
    second = replace(second, parents=(first.sha,))
    third = replace(third, parents=(second.sha,))
    later = replace(later, parents=(third.sha,))
    names = ("b", "a") if swapped else ("a", "b")
    tags = [Tag(names[0], second.sha, 2 * DAY), Tag(names[1], third.sha, 2 * DAY)]
    commits = {each.sha: each for each in (first, second, third, later)}
    ends = boundaries(tags, commits)
    assert [end.name for end in ends] == list(names)
    history = History([], lambda _: None, [end.at for end in ends], until=3 * DAY, placed=placed(ends, commits))
    for each in sorted(commits.values(), key=lambda each: each.sha, reverse=True):
        history.add(each)
    told = {name: since.span.commits for name, since in changes_since(ends, history.spans).items()}
    assert told == {names[0]: 2, names[1]: 1}
    assert [subject for *_, subject in history.spans[1].subjects] == ["Add coffee"]
    assert history.spans[2].commits == 1


def test_releases_bring_their_notes_and_stand_alone_without_a_tag() -> None:
    commits = [commit(3, "Add tea"), commit(2, "Add coffee"), commit(1, "Begin")]
    tags = [Tag("v1.0", commits[1].sha, 2 * DAY), Tag("v1.1", commits[0].sha, 3 * DAY), Tag("side", "f" * 40, 3 * DAY)]
    ends = boundaries(tags, {each.sha: each for each in commits})
    history = walked(*commits, ends=tuple(end.at for end in ends))
    releases = {
        "v1.1": pull("v1.1", "Tea time", "Now with **tea**.", kind="release"),
        "v0.9": pull("v0.9", "v0.9", "An early one.", kind="release"),
    }
    drafts = {draft.key: draft for draft in milestones(REPOSITORY, tags, changes_since(ends, history.spans), releases)}
    assert set(drafts) == {"tag:v1.0", "tag:v1.1", "tag:side", "tag:v0.9"}
    assert drafts["tag:v1.1"].body.startswith(
        "Tea time: Now with tea.\n\n1 commit by 1 person since v1.0:\n- Add tea ("
    )
    assert drafts["tag:v1.0"].body.startswith("2 commits by 1 person from the beginning:\n")
    assert "commits" not in drafts["tag:side"].body
    assert drafts["tag:v0.9"].body.startswith("An early one.")
