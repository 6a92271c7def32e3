"""Vector stores: documents under OpenAI's names."""
