"""Owns the languages of the pages: gettext catalogues in `locale/`, one chosen for each request."""

import gettext
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from starlette.types import Scope

from holdfast.surfaces.http.asgi import header
from holdfast.surfaces.http.authentication import cookie_of

LANGUAGE = "holdfast_language"
"""The cookie with what somebody chose in their profile."""
LANGUAGES: Mapping[str, str] = {"en": "English", "de": "Deutsch"}
"""By code, each in its own words."""


def language_of(chosen: str | None, accepted: str | None) -> str:
    """What somebody chose, else the first of ours that their browser asks for, else English."""
    if chosen in LANGUAGES:
        return str(chosen)
    for wanted in (accepted or "").split(","):
        code = wanted.partition(";")[0].strip().partition("-")[0].lower()
        if code in LANGUAGES:
            return code
    return "en"


def language_for(scope: Scope) -> str:
    """The language of whoever sent a request."""
    return language_of(cookie_of(scope, LANGUAGE), header(scope, b"accept-language"))


@cache
def catalogue(language: str) -> gettext.NullTranslations:
    """The words of a language; English stands in the pages themselves."""
    if language == "en":
        return gettext.NullTranslations()
    folder = Path(str(resources.files("holdfast.surfaces.dashboard") / "locale"))
    with (folder / f"{language}.mo").open("rb") as file:
        return gettext.GNUTranslations(file)
