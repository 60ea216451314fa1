"""What started this process, systemd or its like: the sockets it hands over, and what it is told."""
