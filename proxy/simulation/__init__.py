"""The deciding half under virtual time: workloads, a simulator, and what a fair outcome would be. Pure."""
