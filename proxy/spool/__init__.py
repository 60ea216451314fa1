"""Bodies and answers that nobody takes yet, in memory and in files, so that they hold no worker (behaviour.md §3)."""
