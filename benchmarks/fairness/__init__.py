"""Fairness under attack on real sockets: honest clients beside one attack at a time, Fairgate beside its peers."""
