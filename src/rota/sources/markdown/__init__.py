"""A folder of Markdown files as a source: a repository can contain its own backlog.

    backlog/
      mend-the-gate.md      an item: `markdown-mend-the-gate`
      README.md             not an item; nor are hidden files
      done/                 completed items, with their results
      .claims/              the claims; ignored by git

A file has front matter (all of it optional) and a body, which is the description:

    ---
    title: Mend the gate        # default: the first heading, or the file's name
    priority: high              # 1 to 5, or critical, high, medium, low, lowest
    labels: [garden, iron]
    blocked_by: [buy-hinges]    # files that have to be completed first
    created_at: 2026-05-01      # orders items of equal priority; default: the file's time
    status: queued              # a status of the status machine; only queued is available
    ---

Rota writes two keys, `status` and `result`; everything else stays byte for byte. A file that cannot
be parsed is not offered, and `problems()` says why; other files are not affected.

How a claim works
-----------------
The claims of an item are numbered. The entry `.claims/<item>/<n>.claim` begins claim n, and
`<n>.end` ends it. An entry is a directory with one record in it, written elsewhere and then renamed
into its place. A rename onto a directory that is not empty fails on every file system, so an entry
appears once, whole, and is never changed. Two steps decide everything:

1. The agent that creates `<n+1>.claim` holds the item. It may try when there is no claim n, or when
   n has ended.
2. The agent that creates `<n>.end` decides how claim n ended: its holder, by completing or
   releasing it, or another agent, by taking it over after the lease has lapsed. The slower of the
   two is refused.

The holder's heartbeat is the modification time of its claim's record: touching it cannot overwrite
a later claim. Entries are created through a descriptor of the item's directory, so a slow claimant
cannot write into the claims of a later file of the same name.

What a crash leaves behind
--------------------------
- before `<n>.claim`: nothing but a scrap in `.claims`, which is deleted later;
- after it: a claim that nobody keeps alive; it lapses, and the item is available;
- after `<n>.end` of a takeover or release: an available item;
- after `<n>.end` with a result: the item has ended and cannot be claimed. The entry holds the whole
  result, and the next process that makes a claim writes it into the file: first the new text in one
  rename, then `<n>.told` (or, after success, the move to `done/` and the removal of the claims).
  The claim's token in `result` shows which steps were done, so that none is done twice.

These last steps are taken under a lock, which ends with its process. The lock only keeps two
processes from tidying up at the same time.
"""

from rota.sources.markdown.adapter import MarkdownWorkSource, create
from rota.sources.markdown.folder import Problem

__all__ = ["MarkdownWorkSource", "Problem", "create"]
