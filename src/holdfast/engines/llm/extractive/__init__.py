"""The model of a machine without one: it quotes and computes."""
