"""The papers' tables and figures, one module each, run by name: see README.md."""
