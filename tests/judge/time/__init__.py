"""The judge of event time: the rules said once more, plainly, and random cases by which everything is held to them."""
