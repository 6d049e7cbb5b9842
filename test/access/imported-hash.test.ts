import { expect, test } from "bun:test";
import { isAffordablePasswordHash, readImportedHash, verifyPasswordHash } from "../../src/access/imported-hash.ts";

/** `doveadm pw -s SCHEME -p "correct horse battery"`, of Dovecot 2.3.19. */
const DOVECOTS = {
  "SHA512-CRYPT":
    "$6$foOIZmsNY5yEToG6$EDg1ugHZZ64mFVe.Iq5kOgiHuWHVf1n6QcQefqWFCkvAnitjMCdE.Nre4ZQNpvdRmKyfzresuiOkmIawRS1IL1",
  "BLF-CRYPT": "$2y$05$btvKi3CrD6cb83lctokMc.TY4NexUFMd5q6XNFjLmxHTo1AG6G5ue",
  ARGON2ID: "$argon2id$v=19$m=65536,t=3,p=1$5MW0lkQUQDpgRzwUZTctGA$keVT/9Vw686fj8oBlcCupXd2GCJ5YsJEXmuRrwX095Q",
};

test.each(Object.entries(DOVECOTS))(
  "%s of Dovecot is taken, with and without its name",
  async (scheme, hash) => {
    for (const given of [` {${scheme.toLowerCase()}}${hash}\r`, hash]) {
      expect(await readImportedHash(given)).toBe(`{${scheme}}${hash}`);
    }
    expect(await verifyPasswordHash("correct horse battery", `{${scheme}}${hash}`)).toBe(true);
    expect(await verifyPasswordHash("correct horse batterz", `{${scheme}}${hash}`)).toBe(false);
  },
  60_000,
);

test("bcrypt reads 72 bytes of a password, as elsewhere", async () => {
  const hash = await readImportedHash("{CRYPT}$2y$05$yy0e1OenadKlrOzUMkpUQ.55wHlyMsbyGhLp5DqpVFvvuVf.ugrJG");
  expect(await verifyPasswordHash("y".repeat(90), hash)).toBe(true);
  expect(await verifyPasswordHash("y".repeat(71), hash)).toBe(false);
});

test("a password of a megabyte is wrong at once", async () => {
  expect(await verifyPasswordHash("y".repeat(1_000_000), `{SHA512-CRYPT}${DOVECOTS["SHA512-CRYPT"]}`)).toBe(false);
});

const SALTED = "saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";

test.each([
  `$6$rounds=700001$${SALTED}`,
  `$6$rounds=999999999$${SALTED}`,
  `$6$rounds=999$${SALTED}`,
  DOVECOTS["BLF-CRYPT"].replace("$05$", "$31$"),
  DOVECOTS["BLF-CRYPT"].replace("$05$", "$13$"),
  DOVECOTS["BLF-CRYPT"].replace("$05$", "$03$"),
  DOVECOTS.ARGON2ID.replace("m=65536", "m=4194304"),
  DOVECOTS.ARGON2ID.replace("t=3", "t=1000"),
  DOVECOTS.ARGON2ID.replace("t=3", "t=0"),
  DOVECOTS.ARGON2ID.replace("p=1", "p=255"),
])("what costs too much is refused: %s", async (hash) => {
  expect(isAffordablePasswordHash(hash)).toBe(false);
  await expect(readImportedHash(hash)).rejects.toMatchObject({
    code: "bad_request",
    message: expect.stringContaining("costs too much"),
  });
});

test.each([
  "",
  "correct horse battery",
  "{PLAIN}correct",
  "{SHA512-CRYPT}",
  `{BLF-CRYPT}$6$${SALTED}`,
  `{SHA512-CRYPT.HEX}$6$${SALTED}`,
  "$6$saltstring$short",
  "$2x$05$btvKi3CrD6cb83lctokMc.TY4NexUFMd5q6XNFjLmxHTo1AG6G5ue",
  "$1$saltsalt$2vnaRpHa6Jxjz5n83ok8Z0",
  DOVECOTS.ARGON2ID.replace("argon2id", "argon2i"),
  `${DOVECOTS.ARGON2ID}$`,
  `$6$${SALTED}\n$6$${SALTED}`,
])("what is no such hash is refused: %j", async (text) => {
  await expect(readImportedHash(text)).rejects.toMatchObject({
    code: "bad_request",
    message: expect.stringContaining("as Dovecot has it"),
  });
});
