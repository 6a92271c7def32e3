"""The built-in agent: the program that runs in the sandbox, with the standard library alone and little of that."""
