"""The rule of handing out: what is not held is not given, in every dimension, and by no chain of givers."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.access import Access, Level, NeededTier
from holdfast.core.authority import Authority, authority_of, check_hands_out, person_authority
from holdfast.core.errors import Forbidden
from holdfast.core.principal import ROLES, SCOPES, TIERS, Principal, Role
from tests.support.properties import examples

KEY = Principal(
    "org_1",
    "key_1",
    "key",
    is_person=False,
    scopes=frozenset(SCOPES),
    tier="intel",
    project_id="proj_1",
    workspace_ids=frozenset({"ws_1", "ws_2"}),
    expires_at=1000,
)

keys = st.builds(
    Principal,
    organization_id=st.just("org_1"),
    actor=st.just("key_1"),
    proof=st.just("key"),
    is_person=st.just(False),
    scopes=st.frozensets(st.sampled_from(SCOPES), min_size=1),
    tier=st.sampled_from(TIERS),
    project_id=st.sampled_from([None, "proj_1", "proj_2"]),
    workspace_ids=st.sampled_from([None, frozenset(), frozenset({"ws_1"}), frozenset({"ws_1", "ws_2"})]),
    allow_destructive=st.booleans(),
    expires_at=st.sampled_from([None, 1, 2]),
)
people = st.builds(
    Principal,
    organization_id=st.just("org_1"),
    actor=st.just("usr_1"),
    proof=st.just("session"),
    is_person=st.just(True),
    scopes=st.just(frozenset(SCOPES)),
    role=st.sampled_from(ROLES),
    allow_destructive=st.booleans(),
)
anybody = keys | people
LEVELS: tuple[Level, ...] = ("workspace", "project", "organization")
NEEDED: tuple[NeededTier, ...] = ("core", "exec", "intel")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tier": "all"}, "tier"),
        ({"tier": "exec"}, "tier"),
        ({"project_id": None}, "project_id"),
        ({"project_id": "proj_2"}, "project_id"),
        ({"workspace_ids": None}, "workspace_ids"),
        ({"workspace_ids": frozenset({"ws_1", "ws_3"})}, "workspace_ids"),
        ({"allow_destructive": True}, "allow_destructive"),
        ({"expires_at": None}, "expires_at"),
        ({"expires_at": 1001}, "expires_at"),
        ({"organization_id": "org_2"}, "organization_id"),
        ({"is_person": True}, "role"),
    ],
)
def test_each_dimension_that_is_not_held_is_refused_and_named(more: dict[str, Any], field: str) -> None:
    wanted = replace(authority_of(KEY), **more)
    with pytest.raises(Forbidden, match=field) as refused:
        check_hands_out(KEY, wanted, "a key")
    assert [each.field for each in refused.value.fields] == [field]
    check_hands_out(KEY, authority_of(KEY), "a key")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("wanted", ROLES)
def test_people_give_roles_up_to_their_own(role: Role, wanted: Role) -> None:
    giver = Principal("org_1", "usr_1", "session", is_person=True, scopes=frozenset(SCOPES), role=role)
    lacking = authority_of(giver).lacks(person_authority("org_1", wanted))
    assert bool(lacking) == (ROLES.index(wanted) < ROLES.index(role))


def test_a_member_makes_no_key_and_shares_only_workspaces_that_they_administer() -> None:
    member = Principal("org_1", "usr_1", "session", is_person=True, scopes=frozenset(SCOPES), role="member")
    key = Authority(organization_id="org_1", is_person=False, scopes=frozenset({"read"}))
    assert [each.field for each in authority_of(member).lacks(key)] == ["role"]
    shared = person_authority("org_1", "member", administers=frozenset({"ws_1"}))
    assert [each.field for each in authority_of(member).lacks(shared)] == ["administers"]
    assert not authority_of(member, administers=frozenset({"ws_1"})).lacks(shared)


@given(anybody)
def test_whoever_holds_something_may_hand_out_the_same(giver: Principal) -> None:
    assert not authority_of(giver).lacks(authority_of(giver))


@examples(1000)
@given(anybody, anybody, anybody)
def test_no_chain_of_givers_reaches_what_the_first_could_not_give(a: Principal, b: Principal, c: Principal) -> None:
    first, second, third = authority_of(a), authority_of(b), authority_of(c)
    if not first.lacks(second) and not second.lacks(third):
        assert not first.lacks(third)


@examples(1000)
@given(
    anybody,
    keys,
    st.builds(
        Access,
        level=st.sampled_from(LEVELS),
        scope=st.sampled_from(SCOPES),
        role=st.sampled_from(ROLES[1:]),
        tier=st.sampled_from(NEEDED),
        people_only=st.booleans(),
    ),
)
def test_a_key_that_may_be_handed_out_opens_no_operation_that_is_shut_to_its_giver(
    giver: Principal, key: Principal, access: Access
) -> None:
    if not authority_of(giver).lacks(authority_of(key)) and access.missing(key) is None:
        assert access.missing(giver) is None
