"""Proves that cases are tied to what the issue names, and that exports carry a tie to a commit to another workspace."""

from pathlib import Path

import pytest

from holdfast.core.errors import NotFound
from holdfast.features.chat.service import ChatService
from holdfast.features.intelligence.model import GraphQuery, NewRelation, Ref
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.interchange.model import SourceFile
from holdfast.features.interchange.service import InterchangeService
from holdfast.features.repositories.model import NewRepository
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.features.cases import CaseStage, case_stage
from tests.support.services import background

pytestmark = pytest.mark.slow


async def _known(at: CaseStage, workspace: str, repo: GitRepo, slug: str) -> str:
    """Have a workspace read the repository; its id."""
    repositories = at.services.repositories
    found = await repositories.add(at.ada, workspace, NewRepository(location=str(repo.path), slug=slug))
    assert found.job_id is not None
    await at.services.jobs.wait(found.job_id, timeout_seconds=120)
    return found.id


async def test_a_case_is_tied_to_commits_and_chats_and_a_commit_is_found_again_elsewhere(
    sqlite_database: SqliteDatabase, clock: MovableClock, tmp_path: Path
) -> None:
    at = await case_stage(sqlite_database, clock, tmp_path / "data")
    repo = GitRepo(tmp_path / "repo")
    repo.commit("Mend the hinge", {"gate.py": "OPEN = True\n"})
    relations, graph = at.services[IntelligenceService].relations, at.services[IntelligenceService].graph
    async with background(at.services):
        repository_id = await _known(at, at.workspace, repo, "gate")
        case = await at.add("The gate creaks")
        chat = await at.services[ChatService].create(at.ada, at.workspace, title="About the gate")
        end = Ref("case", case.id)
        for start in (Ref("commit", repo.head[:10]), Ref("chat", chat.id)):
            await relations.relate(at.ada, at.workspace, NewRelation(start, end, "explains"))
        for wrong in (Ref("commit", "f" * 40), Ref("commit", f"{repository_id}/x"), Ref("chat", "chat_0")):
            with pytest.raises(NotFound):
                await relations.relate(at.ada, at.workspace, NewRelation(wrong, end, "explains"))
        seen = await graph(at.ada, at.workspace, GraphQuery(centre=case.id))
        assert {(node.type, node.title) for node in seen.nodes} >= {
            ("commit", "Mend the hinge"),
            ("chat", "About the gate"),
        }

        files: dict[str, bytes] = {}
        exchange = at.services[InterchangeService]
        await exchange.export(at.ada, at.workspace, files.__setitem__)
        home = await at.services[Workspaces].get(at.ada, at.workspace)
        other = (await at.services[Workspaces].create(at.ada, home.project_id, "Other")).id
        there = await _known(at, other, repo, "gate-again")
        sources = [SourceFile(path, data) for path, data in sorted(files.items())]
        report = await exchange.import_files(at.ada, other, sources)
        # Chats stay where they are, and the report says so.
        (problem,) = report.problems
        assert chat.id in problem.reason
        found = await relations.page(at.ada, other)
        assert [each.start for each in found.items] == [Ref("commit", f"{there}/{repo.head}")]
    await at.services.git.close()
