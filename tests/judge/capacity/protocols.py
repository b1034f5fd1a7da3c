"""Protocols whose verdicts are known: safe (None), or the fewest steps to an unsafe state and of how many processes."""

from __future__ import annotations

LOCK = """
type place = Out | In
var Locked : bool
array At[proc] : place
init (p) { At[p] = Out && Locked = False }
unsafe (p q) { At[p] = In && At[q] = In }
transition enter (p) requires { At[p] = Out && Locked = False } { At[p] := In; Locked := True }
transition leave (p) requires { At[p] = In } { At[p] := Out; Locked := False }
"""

LOOK_FIRST = """
type place = Out | Free | In
var Locked : bool
array At[proc] : place
init (p) { At[p] = Out && Locked = False }
unsafe (p q) { At[p] = In && At[q] = In }
transition look (p) requires { At[p] = Out && Locked = False } { At[p] := Free }
transition enter (p) requires { At[p] = Free } { At[p] := In; Locked := True }
transition leave (p) requires { At[p] = In } { At[p] := Out; Locked := False }
"""

ANYBODY_UNLOCKS = LOCK + "transition rob (p) requires { At[p] = Out && Locked = True } { Locked := False }\n"

OWNER = """
type place = Out | In
var Owner : proc
var Free : bool
array At[proc] : place
init (p) { At[p] = Out && Free = True }
unsafe (p q) { At[p] = In && At[q] = In }
unsafe (p) { At[p] = In && Owner <> p }
transition own (p) requires { Free = True } { Free := False; Owner := p }
transition enter (p) requires { Owner = p && Free = False } { At[p] := In }
transition leave (p) requires { At[p] = In } { At[p] := Out; Free := True }
"""

OWNER_GIVES = OWNER + "transition give (p q) requires { Owner = p && At[q] = Out } { Owner := q }\n"

TURNS = """
type place = Out | In
var Turn : proc
array At[proc] : place
init (p) { At[p] = Out }
unsafe (p q) { At[p] = In && At[q] = In }
transition enter (p) requires { Turn = p } { At[p] := In }
transition pass (p q) requires { Turn = p && At[p] = In } { At[p] := Out; Turn := q }
transition lost (p) requires { Turn = p && At[p] = Out } { Turn := . }
"""

TURN_LOST_INSIDE = TURNS.replace("At[p] = Out } { Turn := . }", "At[p] = In } { Turn := . }")

SMALLEST_LEADS = """
array Leads[proc] : bool
array Up[proc] : bool
init (p) { Leads[p] = False && Up[p] = False }
unsafe (p q) { Leads[p] = True && Leads[q] = True }
transition boot (p) requires { Up[p] = False && forall_other o. Leads[o] = False } { Up[p] := True }
transition lead (p) requires { Up[p] = True && forall_other o. (Up[o] = False || p < o) } { Leads[p] := True }
transition stop (p) requires { Up[p] = True } { Up[p] := False; Leads[p] := False }
"""

SMALLEST_LEADS_BOOTS_LATE = SMALLEST_LEADS.replace(" && forall_other o. Leads[o] = False", "")

READERS = """
type place = Out | Reads | Writes
var Readers : int
var Writer : bool
array At[proc] : place
init (p) { At[p] = Out && Readers = 0 && Writer = False }
unsafe (p q) { At[p] = Writes && At[q] = Reads }
unsafe (p q) { At[p] = Writes && At[q] = Writes }
transition read (p) requires { At[p] = Out && Writer = False } { At[p] := Reads; Readers := Readers + 1 }
transition read_end (p) requires { At[p] = Reads } { At[p] := Out; Readers := Readers - 1 }
transition write (p) requires { At[p] = Out && Readers = 0 && Writer = False } { At[p] := Writes; Writer := True }
transition write_end (p) requires { At[p] = Writes } { At[p] := Out; Writer := False }
"""

READERS_WRONG_COUNT = READERS.replace("At[p] := Out; Readers := Readers - 1", "At[p] := Out; Readers := 0")

THREE_TOO_MANY = """
type count = Zero | One | Two | Three
var N : count
array In[proc] : bool
init (p) { In[p] = False && N = Zero }
unsafe () { N = Three }
transition first (p) requires { In[p] = False && N = Zero } { In[p] := True; N := One }
transition second (p) requires { In[p] = False && N = One } { In[p] := True; N := Two }
transition third (p) requires { In[p] = False && N = Two } { In[p] := True; N := Three }
"""

EXCLUSIVE_LINE = """
type line = I | S | E
array L[proc] : line
init (p) { L[p] = I }
unsafe (p q) { L[p] = E && L[q] <> I }
transition share (p) requires { L[p] = I } { L[j] := case | j = p : S | L[j] = E : S | _ : L[j] }
transition take (p) requires { L[p] <> E } { L[j] := case | j = p : E | _ : I }
transition drop (p) requires { L[p] <> I } { L[p] := I }
"""

EXCLUSIVE_LINE_KEEPS = EXCLUSIVE_LINE.replace("| j = p : S | L[j] = E : S | _ : L[j]", "| j = p : S | _ : L[j]")

COMMIT = """
type vote = Open | Yes | No
type end = Waits | Committed | Aborted
array V[proc] : vote
array D[proc] : end
var Decided : end
init (p) { V[p] = Open && D[p] = Waits && Decided = Waits }
unsafe (p q) { D[p] = Committed && D[q] = Aborted }
unsafe (p) { Decided = Committed && V[p] = No }
transition yes (p) requires { V[p] = Open } { V[p] := Yes }
transition no (p) requires { V[p] = Open } { V[p] := No }
transition commit () requires { Decided = Waits && forall_other o. V[o] = Yes } { Decided := Committed }
transition abort (p) requires { Decided = Waits && V[p] = No } { Decided := Aborted }
transition hear (p) requires { Decided <> Waits && D[p] = Waits } { D[p] := Decided }
"""

COMMIT_BY_ONE = COMMIT.replace(
    "commit () requires { Decided = Waits && forall_other o. V[o] = Yes",
    "commit (p) requires { Decided = Waits && V[p] = Yes",
)

#: name -> text, None or (steps, processes)
KNOWN: dict[str, tuple[str, tuple[int, int] | None]] = {
    "a lock taken in one step": (LOCK, None),
    "a lock that is looked at first": (LOOK_FIRST, (4, 2)),
    "a lock that anybody opens": (ANYBODY_UNLOCKS, (3, 2)),
    "a lock with an owner": (OWNER, None),
    "an owner who gives it away inside": (OWNER_GIVES, (3, 2)),
    "turns": (TURNS, None),
    "a turn lost by who is inside": (TURN_LOST_INSIDE, (3, 2)),
    "the smallest leads": (SMALLEST_LEADS, None),
    "the smallest boots late": (SMALLEST_LEADS_BOOTS_LATE, (4, 2)),
    "readers who forget the others": (READERS_WRONG_COUNT, (4, 2)),
    "three of them": (THREE_TOO_MANY, (3, 3)),
    "a line of a cache": (EXCLUSIVE_LINE, None),
    "a line that is kept": (EXCLUSIVE_LINE_KEEPS, (2, 2)),
    "a commit": (COMMIT, None),
    "a commit by one vote": (COMMIT_BY_ONE, (3, 2)),
}
