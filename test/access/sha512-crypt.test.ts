import { expect, test } from "bun:test";
import { sha512Crypt } from "../../src/access/sha512-crypt.ts";

/** The examples of the specification whose salts and rounds are in its bounds. */
test.each([
  [
    "Hello world!",
    "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
  ],
  [
    "Hello world!",
    "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.",
  ],
  [
    "This is just a test",
    "$6$rounds=5000$toolongsaltstrin$lQ8jolhgVRVhY4b5pZKaysCLi0QBxGoNeKQzQ3glMhwllF7oGDZxUhx1yxdYcz/e1JSbq3y6JMxxl8audkUEm0",
  ],
  [
    "a very much longer text to encrypt.  This one even stretches over morethan one line.",
    "$6$rounds=1400$anotherlongsalts$POfYwTEok97VWcjxIiSOjiykti.o/pQs.wPvMxQ6Fm7I6IoYN3CmLs66x9t0oSwbtEW7o7UmJEiDwGqd8p4ur1",
  ],
  [
    "we have a short salt string but not a short password",
    "$6$rounds=77777$short$WuQyW2YR.hBNpjjRhpYD/ifIw05xdfeEyQoMxIXbkvr0gge1a1x3yRULJ5CCaUeOxFmtlcGZelFl5CxtgfiAc0",
  ],
])("%j has the hash that the specification gives", (password, hash) => {
  expect(sha512Crypt(password, hash)).toBe(hash);
});

/** Passwords and their hashes, which crypt(3) of glibc made. */
test.each([
  [
    "x".repeat(64),
    "$6$saltstring$SSoAqlzjEXraQ.dDguxosFViX0Mfw4O.kEQXNqWn2FWfLIsQUWxK3xUguKKWh/yPYlb6YCK5MTl1eAQTuZtVf.",
  ],
  [
    "",
    "$6$rounds=1000$saltstring$CF.N.0BYYN72qUcyvvSEsw6BVOF30ljypIAf09OO9srNHWPxyxF8MeuK7MXWjGoVlM.3yAAk/owEEJQEYuWsY1",
  ],
])("so has a password as long as a digest, and an empty one: %j", (password, hash) => {
  expect(sha512Crypt(password, hash)).toBe(hash);
});
