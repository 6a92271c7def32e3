"""The one guarded way out to the network, and the reading of what comes back."""
