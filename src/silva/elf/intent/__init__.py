"""From plain words to a plan without a model.

words ─▶ Frame: what is said of source, filter, bounds, output ─┐
what is left ─▶ concepts (synonyms, stems, typing errors mended) ─▶ tools whose phrases it says ─┤
                                                                 └─▶ chained over types ─▶ Plan | a question | a refusal

words        concepts: one word for all that mean the same
numbers, times, outcomes, formats    what is read out of the words, each removing what it has read
frame        all of it together
asked        which tools' phrases are said; what is near when none is
chaining     tools to steps: every artefact has a step that gives it
settings     a tool's settings from the frame
offline      the planner
"""
