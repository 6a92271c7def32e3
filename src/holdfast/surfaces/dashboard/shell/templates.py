"""Owns how templates become markup: one environment a language, everything escaped unless Markdown made it."""

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holdfast.core.clock import iso
from holdfast.surfaces.dashboard.shell.assets import asset_url
from holdfast.surfaces.dashboard.shell.markdown import rendered
from holdfast.surfaces.dashboard.shell.words import catalogue

_STATES: Mapping[str, str] = {"good": "check", "warn": "alert", "bad": "cross", "busy": "clock"}


@cache
def environment(language: str) -> Environment:
    """The templates in a language."""
    made = Environment(
        loader=PackageLoader("holdfast.surfaces.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
        auto_reload=False,
    )
    made.install_gettext_translations(catalogue(language), newstyle=True)  # type: ignore[attr-defined]
    made.filters.update(when=_when, day=_day, markdown=rendered, number=_number, size=_size, part=_part, json=_json)
    # `_` takes what it is given for our own markup; a title may be anybody's words, which stay text.
    made.filters["told"] = catalogue(language).gettext
    made.globals.update(asset=asset_url, icon_mark=_icon, state_mark=_state)
    return made


# These two stand in every row of every list, where a macro costs more than all else of the row.
@lru_cache(1_000)
def _icon(name: str) -> Markup:
    return Markup('<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>').format(asset_url("icons.svg"), name)


# What is markup already and what is text are told apart, though they compare as equal.
@lru_cache(1_000, typed=True)
def _state(kind: str, word: str) -> Markup:
    """What somebody's or something's state is: always an icon, a word and a colour."""
    return Markup('<span class="state {}">{}{}</span>').format(kind, _icon(_STATES.get(kind, "dot")), word)


def _when(millis: int | None) -> Markup:
    """A moment in UTC, which a script writes in the reader's own way."""
    if millis is None:
        return Markup("–")
    text = iso(millis)
    return Markup('<time datetime="%s">%s %s UTC</time>') % (text, text[:10], text[11:16])


def _day(millis: int | None) -> Markup:
    if millis is None:
        return Markup("–")
    text = iso(millis)
    return Markup('<time datetime="%s" data-day>%s</time>') % (text, text[:10])


def _number(value: float) -> str:
    """With thousands apart; sums of whole things come from the store as fractions."""
    return f"{int(value) if value == int(value) else value:,}"


def _size(count: int) -> str:
    """Bytes as people say them."""
    if count < 1024:
        return f"{count} B"
    size, unit = (count / 1024, "KiB") if count < 1024**2 else (count / 1024**2, "MiB")
    return f"{size:.1f} {unit}" if size < 10 else f"{size:,.0f} {unit}"


def _part(value: object) -> str:
    """A value as one part of a path."""
    return quote(str(value), safe="")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
