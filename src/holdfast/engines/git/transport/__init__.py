"""How repositories come here: cloned and fetched through the guard."""
