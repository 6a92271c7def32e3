"""The pages speak every language that they offer, whole."""

import gettext
import io
import re

import pytest

from holdfast.surfaces.dashboard.shell.words import LANGUAGES
from scripts.words import ROOT, compiled, missing, read, texts

OTHERS = [language for language in LANGUAGES if language != "en"]


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_of_the_pages_is_translated(language: str) -> None:
    assert missing(language) == [], "run: .venv/bin/python -m scripts.words, then fill in locale/*.po"
    assert sorted(read(language)) == texts()


@pytest.mark.parametrize("language", OTHERS)
def test_the_compiled_catalogue_is_the_edited_one(language: str) -> None:
    made = (ROOT / f"locale/{language}.mo").read_bytes()
    assert made == compiled(read(language)), "run: .venv/bin/python -m scripts.words"
    assert gettext.GNUTranslations(io.BytesIO(made)).gettext("Home") == "Start"


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_keeps_what_is_put_into_it(language: str) -> None:
    for text, translation in read(language).items():
        names = {word.split(")")[0] for word in text.split("%(")[1:]}
        assert names == {word.split(")")[0] for word in translation.split("%(")[1:]}, text


_FAMILIAR = re.compile(
    r"\b(du|dich|dir|dein\w*|gib|nimm|lies|sieh|frag|schreib|lass|leg|bitte (?:einen|in|um))\b"
    # An order to one person: a sentence that begins with a verb in -e and has no 'Sie'.
    r"|(?:^|[.;:] )(?:füge|verbinde|wähle|kopiere|erzeuge|halte|lege|lade|nenne|suche|prüfe|öffne|stelle) ",
    re.IGNORECASE,
)


def test_german_says_sie_to_everybody() -> None:
    familiar = [said for said in read("de").values() if _FAMILIAR.search(said)]
    assert familiar == []
