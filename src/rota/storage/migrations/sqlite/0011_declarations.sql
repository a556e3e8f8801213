-- What the files of servers declare: only what a file has had, and lets go, is taken away, and only
-- once no server has it in its file.

CREATE TABLE declarations (
  kind   TEXT NOT NULL CHECK (kind IN ('signal', 'notify')),
  name   TEXT NOT NULL,
  home   TEXT NOT NULL,  -- whose file: the state directory, by the last part of its node's place
  wanted INTEGER NOT NULL CHECK (wanted IN (0, 1)),  -- 0: its file has it no more, another's may
  PRIMARY KEY (kind, name, home)
) STRICT, WITHOUT ROWID;

-- The last one of a name is looked for at every start, beside any number of signals of people.
CREATE INDEX work_signals_declared ON work_signals (name, id) WHERE configured = 1;
