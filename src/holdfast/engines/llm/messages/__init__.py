"""Between Anthropic's Messages and OpenAI's Chat Completions: requests, answers and streams, in both directions."""
