-- What the files of servers declare: only what a file has had, and lets go, is taken away, and only
-- once no server has it in its file.

CREATE TABLE declarations (
  kind   text COLLATE "C" NOT NULL CHECK (kind IN ('signal', 'notify')),
  name   text COLLATE "C" NOT NULL,
  home   text COLLATE "C" NOT NULL,  -- whose file: the state directory, by the last part of its node's place
  wanted integer NOT NULL CHECK (wanted IN (0, 1)),  -- 0: its file has it no more, another's may
  PRIMARY KEY (kind, name, home)
);

-- The last one of a name is looked for at every start, beside any number of signals of people.
CREATE INDEX work_signals_declared ON work_signals (name, id) WHERE configured = 1;
