import { expect, test } from "bun:test";
import { decodeXtext, isDsnWanted, readMessageDsn, readRecipientDsn } from "../../src/smtp/dsn.ts";
import { Refusal } from "../../src/smtp/refusal.ts";

const told = (read: () => unknown): unknown => {
  try {
    return read();
  } catch (error) {
    if (error instanceof Refusal) return `${error.responseCode} ${error.message}`;
    throw error;
  }
};

test.each<[given: Record<string, string | true>, read: unknown]>([
  [{}, {}],
  [{ SIZE: "100" }, {}],
  [{ RET: "full" }, { ret: "FULL" }],
  [
    { RET: "HDRS", ENVID: "QQ314159+20x" },
    { ret: "HDRS", envid: "QQ314159+20x" },
  ],
  [{ RET: "BODY" }, "501 5.5.4 RET is FULL or HDRS"],
  [{ RET: true }, "501 5.5.4 RET is FULL or HDRS"],
  [{ ENVID: "x".repeat(100) }, { envid: "x".repeat(100) }],
  [{ ENVID: "x".repeat(101) }, "501 5.5.4 ENVID is too long"],
  [{ ENVID: "a+3d" }, "501 5.5.4 ENVID is not xtext"],
  [{ ENVID: "a+3" }, "501 5.5.4 ENVID is not xtext"],
  [{ ENVID: "a=b" }, "501 5.5.4 ENVID is not xtext"],
  [{ ENVID: "é" }, "501 5.5.4 ENVID is not xtext"],
])("MAIL with %j", (given, read) => {
  expect(told(() => readMessageDsn(given))).toEqual(read);
});

test.each<[given: Record<string, string | true>, read: unknown]>([
  [{ NOTIFY: "never" }, { notify: "NEVER" }],
  [{ NOTIFY: "Success,Failure,Delay" }, { notify: "SUCCESS,FAILURE,DELAY" }],
  [{ NOTIFY: "FAILURE,FAILURE" }, { notify: "FAILURE" }],
  [{ NOTIFY: "NEVER,SUCCESS" }, "501 5.5.4 NOTIFY is NEVER, or some of SUCCESS, FAILURE and DELAY"],
  [{ NOTIFY: "SUCCESS," }, "501 5.5.4 NOTIFY is NEVER, or some of SUCCESS, FAILURE and DELAY"],
  [{ NOTIFY: "SUCCESS,FAILURE,DELAY,DELAY" }, "501 5.5.4 NOTIFY is NEVER, or some of SUCCESS, FAILURE and DELAY"],
  [{ NOTIFY: "ALWAYS" }, "501 5.5.4 NOTIFY is NEVER, or some of SUCCESS, FAILURE and DELAY"],
  [{ ORCPT: "rfc822;Bob+2Btag@x.example" }, { orcpt: "rfc822;Bob+2Btag@x.example" }],
  [{ ORCPT: 'rfc822;"a+20b"@x.example' }, { orcpt: 'rfc822;"a+20b"@x.example' }],
  [{ ORCPT: "utf-8;jürgen@x.example" }, { orcpt: "utf-8;j\\x{FC}rgen@x.example" }],
  [{ ORCPT: "rfc822;jürgen@x.example" }, "501 5.5.4 ORCPT is not xtext"],
  [{ ORCPT: "rfc822;" }, "501 5.5.4 ORCPT is not xtext"],
  [{ ORCPT: "bob@x.example" }, "501 5.5.4 ORCPT is the type of an address, a semicolon and the address"],
  [{ ORCPT: ";bob@x.example" }, "501 5.5.4 ORCPT is the type of an address, a semicolon and the address"],
  [{ ORCPT: `rfc822;${"x".repeat(493)}` }, { orcpt: `rfc822;${"x".repeat(493)}` }],
  [{ ORCPT: `rfc822;${"x".repeat(494)}` }, "501 5.5.4 ORCPT is too long"],
])("RCPT with %j", (given, read) => {
  expect(told(() => readRecipientDsn(given))).toEqual(read);
});

test("without NOTIFY only failures are told", () => {
  const wanted = (notify: string | null) =>
    (["SUCCESS", "FAILURE"] as const).filter((kind) => isDsnWanted({ notify }, kind));
  expect([null, "NEVER", "DELAY", "SUCCESS", "FAILURE", "SUCCESS,FAILURE"].map(wanted)).toEqual([
    ["FAILURE"],
    [],
    [],
    ["SUCCESS"],
    ["FAILURE"],
    ["SUCCESS", "FAILURE"],
  ]);
});

test("xtext is decoded once", () => {
  expect(decodeXtext("a+2B20+3Db+zz")).toBe("a+20=b+zz");
});
