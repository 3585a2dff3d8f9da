"""verisphere."""
