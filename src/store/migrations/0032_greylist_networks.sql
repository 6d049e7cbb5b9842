-- Of a first mail that waits for its retry: its network, and how many the network had with it. Earlier rows are forgotten as before.
ALTER TABLE greylist ADD COLUMN network TEXT;
ALTER TABLE greylist ADD COLUMN nth INTEGER;
CREATE INDEX greylist_by_network ON greylist (network) WHERE network IS NOT NULL;
CREATE INDEX greylist_by_surplus ON greylist (nth DESC, expires_at) WHERE network IS NOT NULL;
