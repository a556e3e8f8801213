"""The board in a terminal: the same columns and verbs as in the browser, for people on SSH.

Only `app`, `column_view`, `dialogs`, `item_screen` and the modules they build on need Textual; the
board itself and its plain text do not.
"""
