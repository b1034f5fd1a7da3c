"""Functions that are called and not traced: what is known of them, and what a verdict may say."""
