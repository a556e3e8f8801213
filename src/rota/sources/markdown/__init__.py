"""A folder of Markdown files as a source, so that a repository can carry its own backlog.

    backlog/
      mend-the-gate.md      an item: `markdown-mend-the-gate`
      README.md             not an item; nor are hidden files
      done/                 what was completed, with its result
      .claims/              who holds what; ignored by git

A file has front matter (all of it optional) and a body, which is the description:

    ---
    title: Mend the gate        # else the first heading, else the file's name
    priority: high              # 1 to 5, or critical, high, medium, low, lowest
    labels: [garden, iron]
    blocked_by: [buy-hinges]    # files that have to be completed before
    created_at: 2026-05-01      # for the order among equals; else the time of the file
    status: queued              # the words of the status machine; only queued is available
    ---

Two keys are ours to write, `status` and `result`; everything else stays byte for byte. A file that
cannot be understood is not offered, and `problems()` says why; the others are not affected.

How a claim works
-----------------
The claims of an item are numbered. Claim n is begun by the entry `.claims/<item>/<n>.claim` and
ended by `<n>.end`. An entry is a directory with one record in it, written elsewhere and then
renamed into its place: a rename onto a directory that is not empty fails on every file system, so
an entry appears once, whole, and is never changed. Two steps decide everything:

1. Whoever brings `<n+1>.claim` into being holds the item. It may try when there is no claim n, or
   when n has ended.
2. Whoever brings `<n>.end` into being says how claim n ended: its holder by completing or releasing
   it, or another agent, once the lease has run out, by taking it over. The other comes too late.

The holder's sign of life is the time of the record of its claim: touching it cannot overwrite a
claim that came after. Entries are made through a descriptor of the item's directory, so a slow
claimer cannot write into the claims of a later file of the same name.

What a crash leaves behind
--------------------------
- before `<n>.claim`: nothing but a scrap in `.claims`, which is swept up later;
- after it: a claim that nobody keeps alive; it lapses and the item is available;
- after `<n>.end` of a takeover or release: an available item;
- after `<n>.end` with a result: the item has ended and nobody gets it. The entry holds the whole
  result, and the next call of anybody writes it into the file: first the new text in one rename,
  then `<n>.told` (or, after success, the move to `done/` and the end of the claims). Each step can
  be seen to have been done, by the token of the claim in `result`, and is not done twice.

These last steps are taken under a lock, which dies with its process; nothing depends on it but
that two do not tidy up at the same time.
"""

from rota.sources.markdown.adapter import MarkdownWorkSource, create
from rota.sources.markdown.folder import Problem

__all__ = ["MarkdownWorkSource", "Problem", "create"]
