"""The clients' side: listening, reading, answering."""
