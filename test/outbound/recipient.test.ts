import { expect, test } from "bun:test";
import { recipientsOf } from "../../src/outbound/envelope.ts";

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
