-- Work that waits for a review: how much of it an agent may have, and when somebody last looked.

-- NULL: no limit.
ALTER TABLE agents ADD COLUMN max_in_review integer
  CONSTRAINT room_for_a_review CHECK (max_in_review IS NULL OR max_in_review BETWEEN 1 AND 1000);

-- What the tracker said of the pull request that an item waits for. Only for people: what becomes
-- of the item is decided by its own row.
CREATE TABLE reviews (
  work_item_id text COLLATE "C" PRIMARY KEY NOT NULL REFERENCES work_items (id),
  source       text COLLATE "C" NOT NULL,  -- that was asked
  address      text COLLATE "C" NOT NULL,
  found        text COLLATE "C" NOT NULL CHECK (found IN ('open', 'gone')),
  looked_at    text COLLATE "C" NOT NULL
);
