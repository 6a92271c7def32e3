"""What READMEs and registries say of a server, and its way into the catalog."""
