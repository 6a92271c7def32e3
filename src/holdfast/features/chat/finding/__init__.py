"""Finding chats again: by their last use, and by what was said in them."""
