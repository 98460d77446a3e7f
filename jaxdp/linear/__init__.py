"""Protocols for linear queries."""
