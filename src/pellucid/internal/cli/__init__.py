"""The command line: one file per verb.

Exit codes: 0 proved or done, 1 refuted, 2 bad usage or bad input, 3 unknown or bounded, 4 an internal error;
129, 130 and 143 after a hangup, an interrupt and a SIGTERM, 141 where the reader of a pipe went away.
"""
