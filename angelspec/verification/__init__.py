"""How many rows to verify: policies, and what they need to know."""
