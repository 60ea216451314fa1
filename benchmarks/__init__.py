"""What Fairgate costs, measured beside its peers."""
