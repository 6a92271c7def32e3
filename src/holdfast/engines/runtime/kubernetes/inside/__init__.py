"""Programs of ours that run in pods; they need nothing but the standard library."""
