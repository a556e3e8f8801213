"""A simulation of a tracker, fleets and time, on which claiming is tried thousands of times.

One seed is one story: who runs next, how long each call takes, what a read does not show, which
answer is lost, who dies where. The same seed repeats the same story. `stories.tell` runs one;
`chance.paths` walks through all of them, as far as that is cheap; `referee` says what must never
happen.

For people who write a tracker or change the protocol.
"""
