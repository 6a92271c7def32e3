"""The audit trail: what happened, who did it, and proof that nobody changed the record."""
