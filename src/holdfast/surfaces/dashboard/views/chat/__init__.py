"""The pages of chats, and the column beside them."""
