"""`holdfast users` and `holdfast organizations`: what the operator on the server's own machine may do."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Unauthenticated
from holdfast.core.principal import Principal
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.sessions.sign_in import principal_of
from tests.support.cli import OperatorCli
from tests.support.services import Services

PASSWORD = "correct horse battery"


class Holdfast(OperatorCli):
    """Commands whose answer is read by a script."""

    def __call__(self, *words: str, given: str = "", code: int = 0) -> Any:
        result = self.run(*words, "--json", "--data-dir", self.settings.data_dir, given=given)
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if code == 0 else result.stderr


@pytest.fixture
def holdfast(sqlite_path: Path) -> Holdfast:
    return Holdfast(sqlite_path.parent)


def test_a_name_may_stand_alone_or_behind_its_option_but_once(holdfast: Holdfast) -> None:
    for words in (("projects", "create"), ("workspaces", "create"), ("keys", "create"), ("keys", "rotate")):
        assert holdfast(*words, "Rocket") and holdfast(*words, "--name", "Other")
        assert "needs a name" in holdfast(*words, code=1)
        assert "Two names" in holdfast(*words, "One", "--name", "Two", code=1)
    owner = ("--owner", "eve@example.com")
    assert holdfast("organizations", "create", "Second", *owner)["name"] == "Second"
    assert {"Rocket", "Other"} <= {each["name"] for each in holdfast("workspaces", "list")}


def test_the_operator_adds_people_and_sets_their_passwords(holdfast: Holdfast) -> None:
    made = holdfast(
        "users", "create", "--email", "ada@example.com", "--name", "Ada", "--password-stdin", given=PASSWORD
    )

    async def signs_in(services: Services, _: Principal, password: str = PASSWORD) -> str:
        try:
            return (await services.sign_in.by_password("ada@example.com", password)).session.user_id
        except Unauthenticated:
            return ""

    assert holdfast.ask(signs_in) == made["id"]
    holdfast("users", "password", made["id"], given="another long password\n")
    assert holdfast.ask(signs_in) == ""
    assert holdfast("users", "role", "ADA@example.com", "admin")["role"] == "admin"
    assert holdfast("users", "link", "owner@localhost")["user_id"] not in ("owner@localhost", made["id"])
    link = holdfast("users", "link", "ada@example.com")["path"].partition("link=")[2]

    async def by_link(services: Services, _: Principal) -> str:
        return (await services.sign_in.by_link(link)).session.role

    assert holdfast.ask(by_link) == "admin"

    holdfast("users", "remove", "ada@example.com")
    assert [each["email"] for each in holdfast("users", "list")] == ["owner@localhost"]


def test_invitations_are_made_listed_and_withdrawn(holdfast: Holdfast) -> None:
    made = holdfast("users", "invite", "--email", "new@example.com", "--role", "admin")
    assert "/join?invitation=" in made["url"]
    (listed,) = holdfast("users", "invitations")
    assert (listed["id"], listed["role"], listed["invited_by"]) == (made["id"], "admin", "local")
    secret = made["path"].partition("invitation=")[2]

    async def joins(services: Services, _: Principal) -> str:
        return (await services.invitations.join(secret, name="New")).session.name

    assert holdfast.ask(joins) == "New"
    gone = holdfast("users", "invite", "--email", "other@example.com")
    holdfast("users", "withdraw", gone["id"])
    assert holdfast("users", "invitations") == []


def test_removing_somebody_names_the_keys_that_they_made(holdfast: Holdfast) -> None:
    made = holdfast("users", "create", "--email", "ada@example.com", "--name", "Ada", "--role", "admin")

    async def makes_a_key(services: Services, owner: Principal) -> str:
        link = await services.sign_in.new_link(owner, made["id"])
        person = principal_of((await services.sign_in.by_link(link.secret)).session)
        project = (await services.identity.projects(person)).items[0]
        return (await services.keys.create(person, NewKey(name="theirs", project_id=project.id))).key.id

    key_id = holdfast.ask(makes_a_key)
    removed = holdfast("users", "remove", made["id"])
    assert [key["id"] for key in removed["keys"]] == [key_id]


def test_the_operator_makes_organizations_and_lets_their_owners_in(holdfast: Holdfast) -> None:
    made = holdfast("organizations", "create", "--name", "Second", "--owner", "boss@example.com")
    assert [each["name"] for each in holdfast("organizations", "list")] == ["My team", "Second"]
    secret = made["path"].partition("link=")[2]

    async def enters(services: Services, _: Principal) -> tuple[str, str, str]:
        session = (await services.sign_in.by_link(secret)).session
        return session.organization_id, session.role, session.email

    assert holdfast.ask(enters) == (made["id"], "owner", "boss@example.com")
    # Somebody who has an account gets no second one.
    again = holdfast("organizations", "create", "--name", "Third", "--owner", "boss@example.com")
    assert again["owner_id"] == made["owner_id"]
