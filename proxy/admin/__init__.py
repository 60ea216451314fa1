"""The listeners for operators."""
