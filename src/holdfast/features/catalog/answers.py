"""Owns what REST and the command line show of the catalog."""

from typing import Any

from pydantic import Field

from holdfast.core.model import Answer, Time
from holdfast.core.principal import Principal
from holdfast.features.catalog.manifest import manifest_json
from holdfast.features.catalog.model import (
    CatalogEntry,
    ConnectedPerson,
    InstallState,
    PinnedTool,
    Policy,
    Probed,
    Shape,
    ToolState,
)
from holdfast.features.catalog.pins import changes, description_json, digest_of
from holdfast.features.catalog.snippets.importing import Imported
from holdfast.features.secrets.service import knows_names


class NetworkAnswer(Answer):
    allow: list[str]


class PackageAnswer(Answer):
    manager: str
    package: str
    version: str
    integrity: str


class ServerAnswer(Answer):
    name: str
    shape: Shape
    image: str | None
    command: str | None
    args: list[str]
    url: str | None
    headers: dict[str, str]
    manifest: dict[str, Any]
    env: dict[str, str] = Field(description="Values and `${SECRET}`; only for people and keys that manage")
    network: NetworkAnswer
    paths: list[str] = Field(description="Files of this machine that it sees, read-only")
    enabled: bool
    install: InstallState
    package: PackageAnswer | None = Field(description="What was installed in place of npx, uvx or an image's name")
    job_id: str | None = Field(description="The job that installs it")
    problem: str | None
    server_info: dict[str, Any] | None
    protocol: str | None
    probed_at: Time | None
    created_at: Time
    updated_at: Time
    updated_by: str

    @classmethod
    def shown(cls, entry: CatalogEntry, principal: Principal) -> "ServerAnswer":
        """The entry as this principal may read it."""
        spec = entry.spec
        told = knows_names(principal)
        return cls.of(
            entry,
            name=spec.name,
            shape=spec.shape,
            image=spec.image,
            command=spec.command,
            args=list(spec.args),
            url=spec.url,
            headers=dict(spec.headers) if told else {},
            manifest=manifest_json(spec.manifest),
            env=dict(spec.env) if told else {},
            network=NetworkAnswer(allow=list(spec.allow)),
            paths=list(spec.paths) if told else [],
            enabled=spec.enabled,
            package=None if entry.installed is None else PackageAnswer.of(entry.installed),
        )


class LoginAnswer(Answer):
    user_id: str
    name: str
    email: str
    issuer: str
    connected_at: Time
    expires_at: Time | None = Field(description="When its token ends; null where the server did not say")
    renewable: bool = Field(description="Whether it is renewed without the person")
    needs_login: bool = Field(description="Whether the person has to sign in again, at `login_url`")
    login_url: str

    @classmethod
    def shown(cls, person: ConnectedPerson, login_url: str) -> "LoginAnswer":
        """A login as who may see it reads it."""
        return cls.of(
            person.standing,
            name=person.name,
            email=person.email,
            connected_at=person.standing.updated_at,
            needs_login=person.needs_login,
            login_url=login_url,
        )


class ToolAnswer(Answer):
    name: str
    xem_name: str
    title: str | None
    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, Any]
    scope: str | None
    policy: Policy
    policy_is_set: bool = Field(description="Whether an operator chose it; else it is the default rule's")
    destructive: bool
    idempotent: bool
    state: ToolState
    digest: str
    waiting_digest: str | None = Field(description="Of what waits for a person: `accept` takes it")
    change: dict[str, Any] | None = Field(description="What differs from what was pinned, while it waits for a person")
    flags: list[str] = Field(description="What in its text tries to steer a model")

    @classmethod
    def shown(cls, pin: PinnedTool) -> "ToolAnswer":
        """The tool as everybody reads it."""
        change: dict[str, Any] | None = None
        if pin.waiting is not None:
            change = changes(pin.pinned, pin.waiting)
        elif pin.state == "quarantined":
            change = {"new": {"before": None, "after": description_json(pin.pinned)}}
        return cls(
            name=pin.name,
            xem_name=pin.xem_name,
            title=pin.pinned.title,
            description=pin.pinned.description,
            input_schema=dict(pin.pinned.input_schema),
            annotations=dict(pin.pinned.annotations),
            scope=pin.scope,
            policy=pin.policy(),
            policy_is_set=pin.set_policy is not None,
            destructive=pin.destructive,
            idempotent=pin.idempotent,
            state=pin.state,
            digest=pin.digest,
            waiting_digest=digest_of(pin.waiting or pin.pinned) if pin.state == "quarantined" else None,
            change=change,
            flags=list(pin.flags),
        )


class ToolsAnswer(Answer):
    tools: list[ToolAnswer]


class ProbeAnswer(Answer):
    tools: list[ToolAnswer]
    server_info: dict[str, Any]
    protocol: str
    seconds: float

    @classmethod
    def shown(cls, probed: Probed) -> "ProbeAnswer":
        """What a probe found."""
        tools = [ToolAnswer.shown(each) for each in probed.tools]
        info = dict(probed.server_info)
        return cls(tools=tools, server_info=info, protocol=probed.protocol, seconds=probed.seconds)


class ImportedSecretAnswer(Answer):
    name: str
    server: str
    variable: str
    is_set: bool


class MissingValueAnswer(Answer):
    server: str
    variable: str


class SnippetAnswer(Answer):
    servers: list[ServerAnswer]
    secrets: list[ImportedSecretAnswer]
    values: list[MissingValueAnswer] = Field(description="What is no secret and still has to be given, in env")

    @classmethod
    def shown(cls, imported: Imported, principal: Principal) -> "SnippetAnswer":
        """What an import made."""
        return cls(
            servers=[ServerAnswer.shown(each, principal) for each in imported.servers],
            secrets=[ImportedSecretAnswer.of(each) for each in imported.secrets],
            values=[MissingValueAnswer.of(each) for each in imported.values],
        )


class LogsAnswer(Answer):
    logs: str = Field(description="The last of what the server wrote to stderr")
