"""What scorers ask of models: how likely a text is, which of a few words comes next, which class a text is of.

Each is answered by weights in this process or by an endpoint, and refused in one line where neither can.
"""
