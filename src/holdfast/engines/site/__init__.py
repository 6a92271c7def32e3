"""What a page looks like, told from its HTML and CSS."""
