/** The envelope of sending: whom a message may be from (rules: Sender, Mailbox access), and its recipients. */
import { describe, expect, test } from "bun:test";
import { AppError } from "../../src/base/errors.ts";
import { recipientsOf, senderFor } from "../../src/outbound/envelope.ts";
import { createOffice } from "../harness/outgoing.ts";

describe("from", async () => {
  const office = await createOffice();
  const beta = office.world.workspace("Beta", "beta.test");
  office.world.box(beta, "olga@beta.test", office.world.user(beta, "olga@beta.test", "owner"));
  office.world.alias(office.boxes.alice, "*@example.test");
  const { alice, bob, carl, boxes } = office;

  for (const [who, caller, address, alias, expected] of [
    ["an owner", alice, "alice@example.test", false, boxes.alice],
    ["an owner", alice, " ALICE@Example.TEST ", false, boxes.alice],
    ["an owner", alice, "team@example.test", false, boxes.team],
    ["an owner", alice, "bob@example.test", false, boxes.bob],
    ["an owner", alice, "sales@example.test", false, "unprocessable"],
    ["an owner", alice, "sales@example.test", true, boxes.alice],
    ["an owner", alice, "anything@example.test", true, "unprocessable"],
    ["an owner", alice, "*@example.test", true, "unprocessable"],
    ["an owner", alice, "alice+tag@example.test", true, "unprocessable"],
    ["an owner", alice, "olga@beta.test", true, "unprocessable"],
    ["an owner", alice, "Alice <alice@example.test>", true, "unprocessable"],
    ["an owner", alice, "", true, "unprocessable"],
    ["a member", bob, "bob@example.test", false, boxes.bob],
    ["a member", bob, "alice@example.test", false, "unprocessable"],
    ["a member", bob, "sales@example.test", true, "unprocessable"],
    ["a member with a view-only share", bob, "team@example.test", false, "forbidden"],
    ["a member with a sending share", carl, "team@example.test", false, boxes.team],
    ["a member with a sending share", carl, "alice@example.test", false, "unprocessable"],
  ] as const) {
    test(`${JSON.stringify(address)} by ${who}${alias ? ", aliases allowed" : ""}: ${expected}`, () => {
      const outcome = () => {
        try {
          return senderFor(office.store.db, caller, address, { alias }).reach.mailbox.id;
        } catch (error) {
          return error instanceof AppError ? error.code : error;
        }
      };
      expect(outcome()).toBe(expected);
    });
  }

  test("names what was given in a few words, whatever it is", () => {
    for (const address of [`${"x".repeat(1_000_000)}@example.test`, "alice@example.test\r\nBcc: x"]) {
      expect(() => senderFor(office.store.db, alice, address, { alias: true })).toThrow(/^[^\p{C}]{1,160}$/u);
    }
  });

  test("says the same of an address that nobody has and one that is not reached", () => {
    const said = (address: string) => {
      try {
        return senderFor(office.store.db, bob, address, { alias: true }).address;
      } catch (error) {
        return String(error).replaceAll(address, "X");
      }
    };
    expect(
      new Set(["alice@example.test", "sales@example.test", "nobody@example.test", "olga@beta.test"].map(said)).size,
    ).toBe(1);
  });
});

test("each address once, as first written, in the order of To, Cc, Bcc", () => {
  expect(
    recipientsOf({
      bcc: [{ email: "c@x.example", name: "Hidden" }, { email: "A@x.example" }],
      cc: [{ email: "b@x.example" }, { email: '"a"@X.example' }],
      to: [
        { email: "A@x.example", name: "A" },
        { email: "a@x.example", name: "again" },
      ],
    }),
  ).toEqual([
    { email: "A@x.example", name: "A", field: "to" },
    { email: "b@x.example", field: "cc" },
    { email: "c@x.example", name: "Hidden", field: "bcc" },
  ]);
});

test("what is no address is kept, to be refused by name", () => {
  expect(recipientsOf({ to: [{ email: "nobody" }], cc: [], bcc: [] })).toEqual([{ email: "nobody", field: "to" }]);
});
