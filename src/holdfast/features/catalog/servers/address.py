"""Owns where people reach this server from outside: known once it listens, told to whatever makes links."""


class PublicAddress:
    """The address before every link that is sent to somebody."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
