"""The command line: one file per verb.

Exit codes: 0 proved or done, 1 refuted, 2 bad usage or bad input, 3 unknown, 4 an internal error;
130 and 143 after an interrupt, 141 where the reader of a pipe went away.
"""
