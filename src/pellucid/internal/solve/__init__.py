"""What every room that proves asks a solver with: the session and its time limits (`session`), expressions as terms
(`terms`, `text`, `float_facts`), transition systems in a solver (`transition`), certificates and the checker that each
has to pass (`certificate`), Spacer and a second solver, whose words alone count for nothing (`spacer`, `second`), and
linear relations (`affine`).
"""
