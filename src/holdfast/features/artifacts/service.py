"""Owns the rules of artifacts: who may write one, that identifiers are unique, and that no version is ever lost."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events import EventBus
from holdfast.engines.search import SearchEngine
from holdfast.features.artifacts import store
from holdfast.features.artifacts.diff import unified_diff
from holdfast.features.artifacts.model import (
    READ_BYTES,
    Artifact,
    ArtifactDiff,
    ArtifactNotFound,
    ArtifactReading,
    ArtifactReference,
    ArtifactVersion,
    ContentPart,
    IdentifierTaken,
    NewArtifact,
    NoSuchPart,
    VersionConflict,
    VersionNotFound,
    checked,
    content_problems,
)
from holdfast.features.artifacts.passages import TYPE, Passages, entries_of, passages_of
from holdfast.features.audit.service import Audit
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.storage.database import Database, Tx


class ArtifactService:
    """Creates, updates, reads and compares artifacts."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        search: SearchEngine,
        events: EventBus,
        clock: Clock,
        entities: Entities,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._search = search
        self._events = events
        self._clock = clock
        self._entities = entities

    async def create(self, principal: Principal, workspace_id: str, new: NewArtifact) -> Artifact:
        """Version 1 of a new artifact; IdentifierTaken when its chat (or workspace) has one of that identifier."""
        principal.require("inference")
        new = checked(new)
        passages = await asyncio.to_thread(self._passages, new)
        return await self._database.write(lambda tx: self._create(tx, principal, workspace_id, new, passages))

    def add(self, tx: Tx, principal: Principal, workspace_id: str, new: NewArtifact) -> Artifact:
        """Like `create`, within a transaction."""
        principal.require("inference")
        new = checked(new)
        return self._create(tx, principal, workspace_id, new, self._passages(new))

    def _create(
        self, tx: Tx, principal: Principal, workspace_id: str, new: NewArtifact, passages: Passages
    ) -> Artifact:
        workspace = self._workspaces.check(tx, principal, workspace_id)
        self._workspaces.check_chat(tx, workspace.id, new.chat_id)
        now = self._clock.now()
        made = Artifact(
            id=new_id("art"),
            workspace_id=workspace.id,
            chat_id=new.chat_id,
            identifier=new.identifier,
            title=new.title,
            type=new.type,
            language=new.language,
            version=1,
            size_bytes=len(new.content.encode()),
            created_by=principal.actor,
            created_at=now,
            updated_at=now,
        )
        if not store.insert(tx, made):
            raise IdentifierTaken(new.identifier, in_chat=new.chat_id is not None)
        self._write(tx, principal, made, new.content, passages, "artifact.create")
        return made

    async def update(
        self,
        principal: Principal,
        workspace_id: str,
        reference: ArtifactReference,
        content: str,
        *,
        title: str | None = None,
        expected_version: int | None = None,
    ) -> Artifact:
        """A new version with this content as a whole. Every update is kept; `expected_version` refuses a blind one."""
        principal.require("inference")
        _check_reference(reference)
        before = await self.find(principal, workspace_id, reference)
        title = _checked_change(before, content, title)
        passages = await asyncio.to_thread(self._passages, replace(_as_new(before, title), content=content))

        def work(tx: Tx) -> Artifact:
            self._workspaces.check(tx, principal, workspace_id)
            return self._advance(tx, principal, before, content, passages, title, expected_version)

        return await self._database.write(work)

    def change(
        self, tx: Tx, principal: Principal, workspace_id: str, artifact_id: str, content: str, *, title: str
    ) -> Artifact:
        """Like `update`, within a transaction."""
        principal.require("inference")
        before = self._found(tx, principal, workspace_id, ArtifactReference(artifact_id))
        title = _checked_change(before, content, title) or before.title
        passages = self._passages(replace(_as_new(before, title), content=content))
        return self._advance(tx, principal, before, content, passages, title, before.version)

    def _advance(
        self,
        tx: Tx,
        principal: Principal,
        before: Artifact,
        content: str,
        passages: Passages,
        title: str | None,
        expected_version: int | None,
    ) -> Artifact:
        made = store.advance(tx, before.id, title=title, size_bytes=len(content.encode()), now=self._clock.now())
        if made is None:
            raise ArtifactNotFound(before.id)
        if expected_version is not None and made.version != expected_version + 1:
            raise VersionConflict(expected_version, made.version - 1)
        self._write(tx, principal, made, content, passages, "artifact.update")
        return made

    async def find(self, principal: Principal, workspace_id: str, reference: ArtifactReference) -> Artifact:
        """One artifact as it is now, without content."""
        principal.require_any("read", "inference")
        _check_reference(reference)
        return await self._database.glance(lambda tx: self._found(tx, principal, workspace_id, reference))

    async def read(
        self, principal: Principal, workspace_id: str, artifact_id: str, *, version: int | None = None
    ) -> ArtifactReading:
        """One version (the newest by default); its content unless that is over 1 MiB."""
        reading = await self._reading(principal, workspace_id, artifact_id, version, READ_BYTES)
        return reading if reading.content is not None else replace(reading, next_offset=0)

    async def read_part(
        self, principal: Principal, workspace_id: str, artifact_id: str, part: ContentPart, *, version: int | None
    ) -> ArtifactReading:
        """Some characters of one version, however long it is; NoSuchPart where it ends before."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> ArtifactReading:
            found = self._found(tx, principal, workspace_id, ArtifactReference(artifact_id))
            wanted = version if version is not None else found.version
            kept = store.find_part(tx, found.id, wanted, part)
            if kept is None:
                raise VersionNotFound(wanted)
            facts, text, characters = kept
            if part.offset >= max(characters, 1):
                raise NoSuchPart(part.offset, wanted, characters)
            end = part.offset + len(text)
            return ArtifactReading(found, facts, text, end if end < characters else None)

        return await self._database.read(work)

    async def download(
        self, principal: Principal, workspace_id: str, artifact_id: str, *, version: int | None = None
    ) -> tuple[ArtifactReading, str]:
        """One version with its content, however long."""
        reading = await self._reading(principal, workspace_id, artifact_id, version, None)
        return reading, reading.content or ""

    async def list(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        chat_id: str | None = None,
        type: str | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> tuple[list[Artifact], int]:
        """Artifacts by their last change, newest first, and how many there are in all."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> tuple[list[Artifact], int]:
            id = self._workspaces.check(tx, principal, workspace_id).id
            self._workspaces.check_chat(tx, id, chat_id)
            found = store.page(tx, id, chat_id=chat_id, type=type, limit=limit, offset=offset)
            return found, store.count(tx, id, chat_id=chat_id, type=type)

        return await self._database.read(work)

    async def page(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        chat_id: str | None = None,
        type: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Artifact]:
        """The same list by cursor, which stays right while artifacts change."""
        principal.require_any("read", "inference")
        before: tuple[int, str] | None = None
        if cursor:
            at, last = decode_cursor(cursor, int, str)
            before = int(at), str(last)

        def work(tx: Tx) -> Page[Artifact]:
            id = self._workspaces.check(tx, principal, workspace_id).id
            self._workspaces.check_chat(tx, id, chat_id)
            found = store.page(tx, id, chat_id=chat_id, type=type, limit=limit + 1, before=before)
            return page_of(found, limit, lambda row: [row.updated_at, row.id])

        return await self._database.read(work)

    async def versions(
        self, principal: Principal, workspace_id: str, artifact_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ArtifactVersion]:
        """Every version's facts, newest first."""
        principal.require_any("read", "inference")
        before = int(decode_cursor(cursor, int)[0]) if cursor else 2**62

        def work(tx: Tx) -> Page[ArtifactVersion]:
            found = self._found(tx, principal, workspace_id, ArtifactReference(artifact_id))
            rows = store.versions(tx, found.id, before=before, limit=limit + 1)
            return page_of(rows, limit, lambda row: [row.version])

        return await self._database.read(work)

    async def diff(
        self,
        principal: Principal,
        workspace_id: str,
        artifact_id: str,
        *,
        from_version: int | None = None,
        to_version: int | None = None,
    ) -> ArtifactDiff:
        """What changed from one version to another; by default from the one before to the newest."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> tuple[Artifact, int, int, str, str]:
            found = self._found(tx, principal, workspace_id, ArtifactReference(artifact_id))
            newer = to_version if to_version is not None else found.version
            older = from_version if from_version is not None else max(newer - 1, 1)
            return found, older, newer, _content(tx, found, older), _content(tx, found, newer)

        found, older, newer, old, new = await self._database.read(work)
        names = f"{found.identifier}@{older}", f"{found.identifier}@{newer}"
        diff, added, removed = await asyncio.to_thread(unified_diff, old, new, *names)
        return ArtifactDiff(found, older, newer, added, removed, diff)

    async def delete(self, principal: Principal, workspace_id: str, artifact_id: str) -> None:
        """Remove the artifact, every version of it and what search knows of it."""
        await self._database.write(lambda tx: self.remove(tx, principal, workspace_id, artifact_id))

    def remove(self, tx: Tx, principal: Principal, workspace_id: str, artifact_id: str) -> None:
        """Like `delete`, within a transaction."""
        principal.require("inference")
        found = self._found(tx, principal, workspace_id, ArtifactReference(artifact_id))
        self._entities.forget(tx, found.workspace_id, TYPE, found.id)
        self._search.remove(tx, found.workspace_id, TYPE, found.id)
        store.delete(tx, found.id)
        self._note(tx, principal, "artifact.delete", found)

    async def _reading(
        self, principal: Principal, workspace_id: str, artifact_id: str, version: int | None, most: int | None
    ) -> ArtifactReading:
        principal.require_any("read", "inference")

        def work(tx: Tx) -> ArtifactReading:
            found = self._found(tx, principal, workspace_id, ArtifactReference(artifact_id))
            wanted = version if version is not None else found.version
            kept = store.find_version(tx, found.id, wanted, content_up_to=most)
            if kept is None:
                raise VersionNotFound(wanted)
            return ArtifactReading(found, *kept)

        return await self._database.read(work)

    def _found(self, tx: Tx, principal: Principal, workspace_id: str, reference: ArtifactReference) -> Artifact:
        workspace = self._workspaces.check(tx, principal, workspace_id)
        found = store.find(tx, workspace.id, reference)
        if found is None:
            raise ArtifactNotFound(_name(reference))
        return found

    def _write(
        self, tx: Tx, principal: Principal, made: Artifact, content: str, passages: Passages, action: str
    ) -> None:
        """Keep the version, index it in place of the one before, and tell."""
        digest = hashlib.sha256(content.encode()).hexdigest()
        version = ArtifactVersion(made.version, made.title, made.size_bytes, digest, principal.actor, made.updated_at)
        store.insert_version(tx, made.id, version, content)
        self._search.remove(tx, made.workspace_id, TYPE, made.id)
        self._search.put(tx, entries_of(made, principal.name, passages))
        self._note(tx, principal, action, made)

    def _passages(self, new: NewArtifact) -> Passages:
        return passages_of(self._search, new.identifier, new.title, new.type, new.content)

    def _note(self, tx: Tx, principal: Principal, action: str, artifact: Artifact) -> None:
        detail: Mapping[str, object] = {"identifier": artifact.identifier, "version": artifact.version}
        self._audit.record(
            tx,
            principal,
            action,
            resource="artifact",
            resource_id=artifact.id,
            workspace_id=artifact.workspace_id,
            detail=detail,
        )
        payload = {"artifact_id": artifact.id, "chat_id": artifact.chat_id, "title": artifact.title, **detail}
        self._events.publish(tx, action, payload, workspace_id=artifact.workspace_id)


def _content(tx: Tx, artifact: Artifact, version: int) -> str:
    kept = store.find_version(tx, artifact.id, version, content_up_to=None)
    if kept is None:
        raise VersionNotFound(version)
    return kept[1] or ""


def _as_new(artifact: Artifact, title: str | None = None) -> NewArtifact:
    named = title or artifact.title
    return NewArtifact(artifact.identifier, named, artifact.type, "", artifact.language, artifact.chat_id)


def _checked_change(before: Artifact, content: str, title: str | None) -> str | None:
    """The new title tidied; Invalid when it or the content cannot be kept."""
    if title is not None:
        title = checked(replace(_as_new(before), title=title)).title
    if problems := content_problems(content, in_chat=before.chat_id is not None):
        raise Invalid("The content cannot be kept as it is.", fields=problems)
    return title


def _check_reference(reference: ArtifactReference) -> None:
    if (reference.artifact_id is None) == (reference.identifier is None):
        problem = "give either artifact_id or identifier"
        raise Invalid("It is not clear which artifact is meant.", fields=[FieldError("artifact_id", problem)])


def _name(reference: ArtifactReference) -> str:
    return reference.artifact_id or reference.identifier or ""
