"""The grammar of Cubicle's language, for lark; what a name means is found out in `reading`.

A quantifier or a ``let`` reaches as far to the right as it can (a shift wins over a reduce), ``not`` binds tightest,
then ``&&``, ``||``, then ``=>`` and ``<=>``, all to the right; the last branch of an ``if`` is as tight as an operand
of ``not``.
"""

from __future__ import annotations

GRAMMAR = r"""
start: declaration*

declaration: "number_procs" INT                                                -> size
    | "type" LIDENT                                                            -> abstract
    | "type" LIDENT "=" "|"? MIDENT ("|" MIDENT)*                              -> enumeration
    | "const" MIDENT ":" LIDENT                                                -> constant
    | "var" MIDENT ":" LIDENT                                                  -> variable
    | "array" MIDENT "[" LIDENT ("," LIDENT)* "]" ":" LIDENT                   -> array
    | "predicate" LIDENT "(" [LIDENT ("," LIDENT)*] ")" "{" expr "}"           -> predicate
    | "init" binders "{" expr "}"                                              -> init
    | "unsafe" binders "{" expr "}"                                            -> unsafe
    | "invariant" binders "{" expr "}"                                         -> invariant
    | "transition" (LIDENT|MIDENT) "(" LIDENT* ")" requires "{" body "}"       -> transition

binders: ("(" LIDENT* ")")?
requires: (("requires" | "require") "{" expr "}")?
?body: "let" LIDENT "=" term "in" body                                         -> local_name
    | updates
updates: (update (";" update)* ";"?)?
update: target ":=" term                                                       -> assign
    | target ":=" "case" case+                                                 -> cases
    | target ":=" ("." | "?")                                                  -> anything
target: MIDENT ("[" process ("," process)* "]")?
case: "|" expr ":" term                                                        -> when
    | "|" "_" ":" term                                                         -> otherwise

?expr: either "=>" expr                                                        -> implies
    | either "<=>" expr                                                        -> iff
    | either
?either: both ("||" both)*                                                     -> or_
?both: operand ("&&" operand)*                                                 -> and_
?operand: "not" operand                                                        -> not_
    | "if" expr "then" expr "else" operand                                     -> ite
    | "forall" LIDENT ("<>" LIDENT)* "." expr                                  -> forall
    | "exists" LIDENT ("<>" LIDENT)* "." expr                                  -> exists
    | "forall_other" LIDENT "." expr                                           -> forall_other
    | "exists_other" LIDENT "." expr                                           -> exists_other
    | "let" LIDENT "=" term "in" expr                                          -> let
    | "(" expr ")"
    | "true"                                                                   -> true
    | "false"                                                                  -> false
    | term COMPARE term                                                        -> compare
    | term "=" term                                                            -> equal
    | LIDENT "(" [argument ("," argument)*] ")"                                -> call
?argument: term | expr
term: minus? product (sign product)*
?sign: "+" -> plus
    | minus
minus: "-"
product: number "*" MIDENT                                                     -> times
    | MIDENT "*" number                                                        -> times
    | number                                                                   -> just
    | MIDENT                                                                   -> name
    | MIDENT "[" process ("," process)* "]"                                    -> access
    | LIDENT                                                                   -> local
    | CERTAIN                                                                  -> certain
process: LIDENT | CERTAIN
number: INT | REAL

COMPARE: "<=" | ">=" | "<>" | "<" | ">"
MIDENT: /[A-Z][a-zA-Z0-9_]*/
LIDENT: /[a-z][a-zA-Z0-9_]*/
CERTAIN: /#[1-9][0-9]*/
REAL.2: /[0-9]+\.[0-9]*/
INT: /[0-9]+/
%ignore /[ \t\r\n]+/
"""
