"""What tests of the catalog and of governed execution stand on."""
