"""Owns the tools by which an agent hands over what it made: artifacts, files of its worktree, messages, previews."""

import asyncio
import hashlib
import re
from typing import Any, Literal

from pydantic import Field

from holdfast.core.resources import artifact_uri
from holdfast.core.text.slugs import slug_of
from holdfast.core.tools.tool import AnyTool, ToolCall
from holdfast.features.agents.x1.base import X1Input, X1Output, X1Turn, x1_tool
from holdfast.features.agents.x1.channels import Channels
from holdfast.features.agents.x1.previews import Previews
from holdfast.features.agents.x1.worktree import read_text
from holdfast.features.artifacts.model import WORKSPACE_BYTES, Artifact, ArtifactReference, IdentifierTaken, NewArtifact
from holdfast.features.artifacts.service import ArtifactService

ArtifactType = Literal["code", "analysis", "summary", "document", "diff", "other"]
_LANGUAGE = re.compile(r"[a-z0-9][a-z0-9+#._-]{0,63}")
_BY_SUFFIX = {
    ".md": "text/markdown",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".mmd": "text/x-mermaid",
    ".py": "text/x-python",
    ".ts": "text/x-typescript",
    ".js": "text/x-javascript",
    ".go": "text/x-go",
    ".rs": "text/x-rust",
    ".sql": "text/x-sql",
    ".sh": "text/x-shell",
    ".diff": "text/x-diff",
    ".patch": "text/x-diff",
}


class ArtifactInput(X1Input):
    artifact_type: ArtifactType
    title: str = Field(min_length=1, max_length=300)
    content: str = Field(min_length=1)
    language: str | None = Field(None, max_length=64, description="Of code, such as python")
    metadata: dict[str, Any] | None = None


class MadeOutput(X1Output):
    artifact_id: str
    version: int
    uri: str


class ShareInput(X1Input):
    path: str = Field(min_length=1, max_length=4_000, description="A file of your worktree")
    title: str | None = Field(None, max_length=300)
    share_id: str | None = Field(None, max_length=100, description="The same one again makes a new version")


class MessageInput(X1Input):
    channel: str = Field(min_length=1, max_length=64, description="dashboard, or a channel of the workspace")
    text: str = Field(min_length=1, max_length=20_000)
    thread_id: str | None = Field(None, max_length=200)
    username: str | None = Field(None, max_length=100)


class MessageOutput(X1Output):
    channel: str
    delivered: bool = True


class PreviewInput(X1Input):
    repo_full_name: str = Field(max_length=200, description="owner/name")
    branch: str = Field(max_length=200)
    commit_sha: str = Field(max_length=64)


class PreviewOutput(X1Output):
    url: str


def making_tools(artifacts: ArtifactService, channels: Channels, previews: Previews) -> list[AnyTool]:
    """Artifacts, files, messages, previews."""

    async def keep(call: ToolCall, new: NewArtifact) -> Artifact:
        """The artifact, or the next version of it."""
        try:
            return await artifacts.create(call.principal, call.workspace(), new)
        except IdentifierTaken:
            reference = ArtifactReference(identifier=new.identifier)
            return await artifacts.update(call.principal, call.workspace(), reference, new.content, title=new.title)

    async def emit_artifact(call: ToolCall, turn: X1Turn, given: ArtifactInput) -> MadeOutput:
        new = NewArtifact(
            identifier=_identifier(turn.session.id, given.title),
            title=given.title,
            type=_media_type(given.artifact_type, given.language),
            content=given.content,
            language=given.language,
        )
        made = await keep(call, new)
        data = {
            "artifact_id": made.id,
            "title": made.title,
            "artifact_type": given.artifact_type,
            "version": made.version,
            "metadata": given.metadata or {},
        }
        await turn.actions.emit(turn.session, "artifact", data)
        return _made(made)

    async def share(call: ToolCall, turn: X1Turn, given: ShareInput) -> MadeOutput:
        await turn.session.refresh()
        text = await asyncio.to_thread(read_text, turn.session.worktree, given.path, WORKSPACE_BYTES)
        turn.session.keep(len(text))
        name = given.path.rstrip("/").rpartition("/")[2]
        new = NewArtifact(
            identifier=_identifier(turn.session.id, given.share_id or given.path),
            title=(given.title or name)[:300],
            type=_BY_SUFFIX.get(name[name.rfind(".") :].lower() if "." in name else "", "text/plain"),
            content=turn.mask.text(text),
        )
        made = await keep(call, new)
        data = {"artifact_id": made.id, "title": made.title, "path": given.path, "version": made.version}
        await turn.actions.emit(turn.session, "shared", data)
        return _made(made)

    async def post_message(call: ToolCall, turn: X1Turn, given: MessageInput) -> MessageOutput:
        username = given.username or turn.session.agent_slug
        channel = await channels.post(
            call.workspace(), given.channel, given.text, thread_id=given.thread_id, username=username
        )
        data = {"channel": channel, "text": given.text, "thread_id": given.thread_id, "username": username}
        await turn.actions.emit(turn.session, "posted", data)
        return MessageOutput(channel=channel)

    async def preview_deploy(call: ToolCall, turn: X1Turn, given: PreviewInput) -> PreviewOutput:
        url = await previews.deploy(given.repo_full_name, given.branch, given.commit_sha)
        await turn.actions.emit(turn.session, "preview", {"url": url, **given.model_dump()})
        return PreviewOutput(url=url)

    return [
        x1_tool(
            "emit_artifact",
            "Hand over something that you made. The same title again makes a new version.",
            ArtifactInput,
            MadeOutput,
            emit_artifact,
        ),
        x1_tool("share", "Hand over a text file of your worktree as an artifact.", ShareInput, MadeOutput, share),
        x1_tool(
            "post_message",
            "Post to a channel of the workspace, for people to read.",
            MessageInput,
            MessageOutput,
            post_message,
            outside=True,
        ),
        x1_tool(
            "preview_deploy",
            "Deploy a pushed commit as a preview, and get its address.",
            PreviewInput,
            PreviewOutput,
            preview_deploy,
            outside=True,
        ),
    ]


def _made(artifact: Artifact) -> MadeOutput:
    return MadeOutput(artifact_id=artifact.id, version=artifact.version, uri=artifact_uri(artifact.id))


def _identifier(session_id: str, name: str) -> str:
    """One artifact for one name in one session."""
    marked = hashlib.sha256(f"{session_id}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug_of(name, fallback='artifact')}-{marked}"


def _media_type(kind: ArtifactType, language: str | None) -> str:
    if kind == "code":
        spelled = (language or "").strip().lower()
        return f"text/x-{spelled}" if _LANGUAGE.fullmatch(spelled) is not None else "text/plain"
    if kind == "diff":
        return "text/x-diff"
    return "text/plain" if kind == "other" else "text/markdown"
