"""Reading git repositories: cloned through the guard, walked and read in a child process under limits."""
