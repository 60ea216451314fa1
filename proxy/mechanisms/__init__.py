"""Machines without a Matrix word inside: fair queue, limits, breakers, budgets, rates. Pure."""
