"""`python -m holdfast`."""

from holdfast.main import main

main()
