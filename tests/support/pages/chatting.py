"""Owns a person in a chat: writes, waits for the finished answer, and reads what the page shows of it."""

from dataclasses import dataclass

from playwright.async_api import Locator

from tests.support.pages.browsing import Person


@dataclass(frozen=True)
class Room:
    """The chat page that a person looks at."""

    person: Person

    @property
    def answers(self) -> Locator:
        """Answers as the server rendered them; a draft is none."""
        return self.person.page.locator(".answer:not(.draft)")

    @property
    def said(self) -> Locator:
        """What people said, as the server shows it."""
        return self.person.page.locator(".mine:not(.draft) .said")

    async def write(self, text: str) -> None:
        """Type into the composer and send with Enter."""
        await self.person.write(self.person.page.get_by_label("Your message"), text)
        await self.person.page.get_by_label("Your message").press("Enter")

    async def ask(self, text: str) -> Locator:
        """Write, and wait for the answer that the server keeps."""
        count = await self.answers.count()
        await self.write(text)
        answer = self.answers.nth(count)
        await answer.wait_for()
        return answer

    async def choose(self, endpoint: str) -> None:
        """Let another endpoint answer from here on."""
        await self.person.page.get_by_label("Who answers").select_option(endpoint)
