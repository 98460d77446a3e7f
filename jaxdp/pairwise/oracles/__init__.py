"""Statistics of pairs from one report of a frequency oracle per user."""
