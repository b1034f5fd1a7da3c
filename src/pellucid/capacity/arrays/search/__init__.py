"""The search backwards: cubes as numbers (`cubes`), one step back (`preimage`), the fixpoint (`backward`), guesses."""
