"""Programs that run in the desktop's sandbox, with the system's Python; Silva never imports them.

driver    holds the X server, the bus, the window manager and the applications; carries out what it is asked
screen    pictures of the screen, and whether it stands still        tree     the accessibility tree, bounded
hands     pyautogui's actions, one call each                         coder    forks a process for an agent's code
watch     which files were opened                                    popup    the pop-up of a task
wire      frames between driver and Silva                            reader   a saved document as JSON, elsewhere
"""
