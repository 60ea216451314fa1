"""The rules, one a file; none knows another. Pure."""
