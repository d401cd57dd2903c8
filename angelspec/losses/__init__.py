"""Training objectives of drafters. One equation, one function."""
