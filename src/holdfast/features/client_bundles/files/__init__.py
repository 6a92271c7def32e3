"""The files of clients, changed where they are ours and nowhere else."""
