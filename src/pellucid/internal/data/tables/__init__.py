"""Tables as users have them: frames and lists of dicts, the order of rows, the columns that come along."""
