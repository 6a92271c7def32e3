"""What decides about a call before anybody is asked: policies and grants."""
