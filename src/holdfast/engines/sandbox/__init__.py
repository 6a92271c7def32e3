"""Processes that give up what they do not need before they touch what somebody else made."""
