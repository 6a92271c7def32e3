"""The table of the management API: every operation says who may call it, and says it sensibly."""

import dataclasses

from holdfast.core.access import Access
from holdfast.doors import rest_operations
from holdfast.surfaces.rest.api import Operation
from holdfast.surfaces.rest.openapi import document
from tests.support.server import TestServer

# Paths that change who people are or what they may do: keys have no business there.
PEOPLE = ("/api/users", "/api/invitations", "/api/me", "/api/session", "/api/workspaces/{workspace_id}/admins")
# Above a workspace by its path, at workspace level by its answer: the list holds only what the credential sees.
LISTS_WHAT_IS_SEEN = ("/api/workspaces",)
INTEL = ("/decisions", "/milestones", "/timeline", "/relations", "/graph", "/brief", "/analyze", "/import", "/export")
INTEL_OF_A_REPOSITORY = ("/findings", "/synthesis")


def named(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def test_an_operation_without_a_declaration_cannot_be_written() -> None:
    (field,) = (field for field in dataclasses.fields(Operation) if field.name == "access")
    assert field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


async def test_every_operation_declares_who_may_call_it(sqlite_server: TestServer) -> None:
    for operation in rest_operations(sqlite_server.services):
        assert isinstance(operation.access, Access), named(operation)
        assert operation.access.scopes, named(operation)


async def test_whatever_is_below_a_workspace_is_at_its_level(sqlite_server: TestServer) -> None:
    for operation in rest_operations(sqlite_server.services):
        below = operation.path.startswith("/api/workspaces/{workspace_id}")
        listed = operation.method == "GET" and operation.path in LISTS_WHAT_IS_SEEN
        assert (operation.access.level == "workspace") == (below or listed), named(operation)


async def test_keys_cannot_change_people(sqlite_server: TestServer) -> None:
    for operation in rest_operations(sqlite_server.services):
        if operation.path.startswith(PEOPLE) and operation.method != "GET":
            assert operation.access.people_only, named(operation)


async def test_reading_scope_changes_nothing(sqlite_server: TestServer) -> None:
    """What a key with `read` alone may call either is a GET or only asks in a body."""
    asks = ("/recall", "/search", "/analyze")
    for operation in rest_operations(sqlite_server.services):
        if "read" in operation.access.scopes:
            assert operation.method == "GET" or operation.path.endswith(asks), named(operation)


async def test_managing_above_a_workspace_takes_an_admin(sqlite_server: TestServer) -> None:
    own = ("POST /api/organizations",)
    for operation in rest_operations(sqlite_server.services):
        access = operation.access
        if access.level in ("project", "organization") and access.scopes == ("management",):
            assert access.role in ("admin", "owner") or named(operation) in own, named(operation)


async def test_what_belongs_to_the_intelligence_tools_needs_their_tier(sqlite_server: TestServer) -> None:
    space = "/api/workspaces/{workspace_id}"
    for operation in rest_operations(sqlite_server.services):
        rest = operation.path.removeprefix(space)
        intel = rest.startswith(INTEL) or rest.endswith(INTEL_OF_A_REPOSITORY)
        assert (operation.access.tier == "intel") == intel, named(operation)


async def test_the_openapi_document_shows_the_declaration(sqlite_server: TestServer) -> None:
    operations = rest_operations(sqlite_server.services)
    paths = document(operations)["paths"]
    for operation in operations:
        shown = paths[operation.path][operation.method.lower()]["x-access"]
        assert shown == operation.access.as_json(), named(operation)
