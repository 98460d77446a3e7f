"""Statistics of pairs in several rounds, each of which broadcasts what the last one found."""
