"""Collections: records of a graph and vectors that agents keep beside what the workspace knows already."""
