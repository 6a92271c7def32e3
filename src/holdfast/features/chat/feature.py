"""What chats add to the server: conversations with branches, questions and tools."""

from holdfast.core.access import READ
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="chat",
    commands={
        "chats": ("commands:chats", "Conversations over the OpenAI-compatible endpoint."),
    },
    tools=True,
    aliases=True,
    operations=("operations",),
    services=("ChatService", "ChatFinding", "ChatTurns", "ChatWordsFilling", "DeletedChats"),
    background_once=("ChatWordsFilling", "DeletedChats"),
    answers=("ChatExists",),
    entities=True,
    topics={"chat": Topic(READ)},
    migrations=("0013_chats", "0025_continuations", "0034_chat_finding", "0054_chat_words"),
    contract=("XM-21", "XS-2", "XS-3", "XS-4", "XS-7", "XS-T7"),
)
