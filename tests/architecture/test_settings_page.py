"""Every setting is on the settings page."""

from scripts.settings_page import PAGE, page


def test_the_settings_page_is_the_table_in_the_code() -> None:
    assert PAGE.read_text() == page(), "run: .venv/bin/python scripts/settings_page.py"
