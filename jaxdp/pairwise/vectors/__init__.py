"""Statistics of pairs from one or two vectors that each user reports."""
