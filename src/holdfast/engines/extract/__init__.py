"""Reading text out of files, in a process that can be killed."""
