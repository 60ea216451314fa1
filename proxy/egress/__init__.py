"""The way out for a homeserver's push deliveries: a forward proxy that no gateway can stall (behaviour.md §7.2 to §7.5)."""
