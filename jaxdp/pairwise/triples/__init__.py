"""Statistics of triples of users."""
