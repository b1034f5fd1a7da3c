"""The transition system of a pipeline (its Kripke structure), as expressions."""
