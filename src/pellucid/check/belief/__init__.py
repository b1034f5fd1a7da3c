"""What an answer has to pass before it is believed: proofs are tried, counterexamples are run."""
