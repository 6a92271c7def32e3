"""The declarations: every operation, tool, prompt, resource and route says who may use it, and says it sensibly."""

import dataclasses

from holdfast.core.access import Access
from holdfast.core.operations import Operation
from holdfast.core.tools.tool import Tool
from holdfast.registry.prompts import Prompt
from holdfast.registry.resources import Resource, ResourceTemplate
from holdfast.server.endpoints.openai import routes
from holdfast.server.routes import rest_operations
from holdfast.surfaces.http.endpoint.surface import EndpointRoute
from holdfast.surfaces.rest.openapi import document
from tests.support.server import TestServer

# Paths that change who people are or what they may do: keys have no business there.
PEOPLE = ("/api/users", "/api/invitations", "/api/me", "/api/session", "/api/workspaces/{workspace_id}/admins")
# Above a workspace by its path, at workspace level by its answer: the list holds only what the credential sees.
LISTS_WHAT_IS_SEEN = (
    *("/api/workspaces", "/api/audit", "/api/audit/export", "/api/chats", "/api/chat-messages", "/api/events"),
)
# What is of a workspace and named by its own id alone.
OF_A_WORKSPACE = ("/agents/{agent_id}", "/api/agents/{agent_id}", "/api/sessions/{session_id}")
INTEL = (
    "/artifacts",
    "/decisions",
    "/milestones",
    "/timeline",
    "/relations",
    "/graph",
    "/brief",
    "/analyze",
    "/import",
    "/export",
)
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
        below = operation.path.startswith(("/api/workspaces/{workspace_id}", *OF_A_WORKSPACE))
        listed = operation.method == "GET" and operation.path in LISTS_WHAT_IS_SEEN
        # A person at a page decides about what a link names; its workspace is found, and its admins are asked for.
        decided = operation.access.signed_in
        assert (operation.access.level == "workspace") == (below or listed or decided), named(operation)


async def test_keys_cannot_change_people(sqlite_server: TestServer) -> None:
    for operation in rest_operations(sqlite_server.services):
        of_people = any(f"{operation.path}/".startswith(f"{each}/") for each in PEOPLE)
        if of_people and operation.method != "GET":
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


def test_what_agents_and_clients_are_served_cannot_be_written_without_a_declaration() -> None:
    for kind in (Tool, Prompt, Resource, ResourceTemplate, EndpointRoute):
        (field,) = (field for field in dataclasses.fields(kind) if field.name == "access")
        assert field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


async def test_every_alias_stands_for_tools_that_ask_the_same(sqlite_server: TestServer) -> None:
    gateway = sqlite_server.services.gateway
    stands_for = {
        "web_search": {"xerotier.research.web_search"},
        "fetch_url": {"xerotier.research.fetch_url"},
        "code_search": {"xerotier.code.search", "xerotier.code.repo_overview", "xerotier.code.repo_read"},
        "gitlab_code_search": {"gitlab.search", "gitlab.repo_overview", "gitlab.repo_read"},
        "calculator": {"xerotier.calc.evaluate"},
        "create_artifact": {"xerotier.artifact.create"},
        "update_artifact": {"xerotier.artifact.update"},
        "save_memory": {"xerotier.memory.save"},
        "recall_memory": {"xerotier.memory.recall"},
        "ask_user": {"ask_user"},
        "file_search": {"file_search"},
    }
    assert {alias.name: set(alias.tools) for alias in gateway.aliases("chat")} == stands_for
    for alias in (*gateway.aliases("chat"), *gateway.aliases("ask")):
        asked = {tool.access for name in alias.tools if (tool := gateway.get(name)) is not None}
        assert len(asked) == 1, alias.name


async def test_the_tiers_have_as_many_tools_as_they_promise(sqlite_server: TestServer) -> None:
    tools = sqlite_server.services.gateway.listed("mcp")
    assert [sum(tool.within(tier) for tool in tools) for tier in ("core", "intel")] == [10, 25]


async def test_every_path_of_openais_clients_is_within_a_workspace_and_takes_inference(
    sqlite_server: TestServer,
) -> None:
    for route in routes(sqlite_server.services, "model"):
        assert route.access.level == "workspace" and "inference" in route.access.scopes, route.path
        assert ("read" in route.access.scopes) == (route.method == "GET" or route.path.endswith("/search")), route.path
