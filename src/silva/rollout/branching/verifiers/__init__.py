"""Verifiers: which of several actions is the best, said by the policy's own completions, a model, rules, or chance.

completions  goes on from each candidate's state to the end, several times, and asks the environment's checker
endpoint     asks a model, in both orders of the candidates
rules        reward, progress by the environment's checker, and errors in the answer
value        a learned value head
chance       `random`: the control

verifier     the protocol             registry  the names             accuracy  one verifier held against another
"""
