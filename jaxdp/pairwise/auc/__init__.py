"""Protocols for the area under the ROC curve alone."""
