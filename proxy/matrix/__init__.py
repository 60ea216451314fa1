"""What bytes mean to Matrix. Pure."""
