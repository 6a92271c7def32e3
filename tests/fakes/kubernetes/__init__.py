"""A cluster that answers over real HTTP as it is documented, and refuses what is not."""
