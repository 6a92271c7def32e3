"""How a memory is worded: cleaned, titled, held against its likes."""
