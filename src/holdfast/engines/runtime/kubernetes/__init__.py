"""Runs programs as pods of a Kubernetes cluster."""
