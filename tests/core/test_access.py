"""What a declaration of access lets through, and what it says to whom it refuses."""

import pytest

from holdfast.core.access import Access, at_least, holds
from holdfast.core.errors import Forbidden
from holdfast.core.principal import ROLES, SCOPES, TIERS, Principal, Role, Tier


def key(
    *,
    scopes: frozenset[str] = frozenset(SCOPES),
    tier: Tier = "all",
    project_id: str | None = None,
    workspace_ids: frozenset[str] | None = None,
) -> Principal:
    return Principal(
        "org_1",
        "key_1",
        "key",
        is_person=False,
        scopes=frozenset(scope for scope in SCOPES if scope in scopes),
        tier=tier,
        project_id=project_id,
        workspace_ids=workspace_ids,
    )


def person(role: Role) -> Principal:
    return Principal("org_1", "usr_1", "session", is_person=True, scopes=frozenset(SCOPES), role=role)


@pytest.mark.parametrize("level", ["project", "organization"])
def test_a_key_confined_to_workspaces_is_refused_above_them(level: str) -> None:
    access = Access("project" if level == "project" else "organization", SCOPES)
    with pytest.raises(Forbidden, match=f"whole {level}; the key is confined to certain workspaces"):
        access.check(key(project_id="proj_1", workspace_ids=frozenset({"ws_1"})))
    Access("workspace", SCOPES).check(key(project_id="proj_1", workspace_ids=frozenset({"ws_1"})))
    Access("self", SCOPES).check(key(project_id="proj_1", workspace_ids=frozenset()))


def test_a_projects_key_is_refused_at_the_organizations_level_only() -> None:
    with pytest.raises(Forbidden, match="whole organization"):
        Access("organization", SCOPES).check(key(project_id="proj_1"))
    Access("project", SCOPES).check(key(project_id="proj_1"))
    Access("organization", SCOPES).check(key())


def test_any_one_of_the_scopes_is_enough_and_none_is_named() -> None:
    access = Access("workspace", ("read", "inference"))
    access.check(key(scopes=frozenset({"read"})))
    access.check(key(scopes=frozenset({"inference"})))
    with pytest.raises(Forbidden, match="'read' or 'inference'; the credential has \\['management'\\]"):
        access.check(key(scopes=frozenset({"management"})))
    with pytest.raises(Forbidden, match="has none"):
        access.check(key(scopes=frozenset()))


@pytest.mark.parametrize("tier", TIERS)
def test_a_key_needs_the_tier_and_a_person_does_not(tier: Tier) -> None:
    access = Access("workspace", "inference", tier="intel")
    access.check(person("member"))
    if tier in ("intel", "all"):
        access.check(key(tier=tier))
    else:
        with pytest.raises(Forbidden, match=f"tier 'intel' or 'all'; the key has the tier '{tier}'"):
            access.check(key(tier=tier))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("least", ROLES)
def test_a_person_needs_the_role_and_a_key_does_not(role: Role, least: Role) -> None:
    access = Access("organization", "management", role=least)
    access.check(key())
    if at_least(role, least):
        access.check(person(role))
    else:
        with pytest.raises(Forbidden, match=f"the role {least}; yours is {role}"):
            access.check(person(role))


def test_keys_never_do_what_is_peoples() -> None:
    access = Access("organization", "management", people_only=True)
    access.check(person("member"))
    with pytest.raises(Forbidden, match="signed-in person"):
        access.check(key())


def test_every_tier_holds_core_and_only_all_holds_everything() -> None:
    assert all(holds(tier, "core") for tier in TIERS)
    assert {tier for tier in TIERS if holds(tier, "exec") and holds(tier, "intel")} == {"all"}
